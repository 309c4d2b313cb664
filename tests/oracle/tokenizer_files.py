"""The tokenizers that tokenizer_oracle.py compares: in the style of each family that is served, trained on the spot."""
import itertools
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}").replace(r"\s*[\r\n]+", r"\s*[\r\n]+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
# Constructs that differ between Oniguruma and PCRE2.
ODD = (r"^#+[^\n]*$|\A\h{2}|\w+(?=\W|\z)|[[:alpha:]]+|[[:digit:]]{2,3}+|[a-c&&[^b]]|(?>\d+)\D"
       r"|[\w\-]|[\W[:^punct:]&&[^\s\p{L}]]|[[:alnum:]]{3}"
       r"|[[:word:]]{4}|\p{Greek}{,2}|[\]\[]|(?m:a.b)|[\x{1F600}-\x{1F64F}\u00e9]|\S{2}+|\s++")
# \w is smaller within a class; where case is ignored, letters gain a mark in one and properties stay what they are outside.
FOLDED = r"(?i)\w+|[^\w\s]{2}|[[:xdigit:]]|\p{Emoji_Presentation}|k[^\p{L}]|\p{Lu}(?-i:b)[[:cntrl:][:blank:]]*"
BEHIND = r"\bx\B|(?<=\p{Nd})\p{^Nd}|(?<!a)b+?|(?<=^|\n)[ \t]{1,2}?\S"

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|start_header_id|>"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(prefix=False, use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def train(corpus, pre_tokenizer, normalizer=None, decoder=None, vocab=2000, model=None, **options):
    tokenizer = Tokenizer(model or models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder is not False:
        tokenizer.decoder = decoder or decoders.ByteLevel()
    options.setdefault("initial_alphabet", pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocab, show_progress=False, **options))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>"])
    return tokenizer


def with_model(tokenizer, **changes):
    """The same with members of the model changed."""
    data = json.loads(tokenizer.to_str())
    data["model"].update(changes)
    return Tokenizer.from_str(json.dumps(data))


def byte_fallback(corpus, normalizer, pre_tokenizer, decoder, fuse_unk):
    bytes_tokens = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = train(corpus, pre_tokenizer, normalizer, decoder, model=models.BPE(unk_token="<unk>"),
                      initial_alphabet=[], limit_alphabet=300, special_tokens=["<unk>", "<s>", "</s>"] + bytes_tokens)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] not in bytes_tokens]
    data["model"].update(byte_fallback=not fuse_unk, fuse_unk=fuse_unk)
    return Tokenizer.from_str(json.dumps(data))


def large():
    """150,000 entries and 800 added tokens: the size of a real one."""
    numbers = random.Random(5)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(alphabet)}
    merges, words = [], list(vocab)
    while len(vocab) < 150000:
        pair = (words[numbers.randrange(min(len(words), 40000))], words[int(len(words) * numbers.random() ** 3)])
        if pair[0] + pair[1] not in vocab and len(pair[0] + pair[1]) < 16:
            vocab[pair[0] + pair[1]] = len(vocab)
            words.append(pair[0] + pair[1])
            merges.append(pair)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split(GPT4), byte_level()])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([f"<|reserved_{i}|>" for i in range(700)])
    tokenizer.add_tokens([f"<extra_{i}>" for i in range(100)])
    return tokenizer


def with_awkward_added_tokens(corpus):
    tokenizer = train(corpus, pre_tokenizers.Sequence([split(GPT4), byte_level()]),
                      normalizers.NFC())
    for i, (single, left, right, norm) in enumerate(itertools.product([False, True], repeat=4)):
        tokenizer.add_tokens([AddedToken(f"Tok{'ABCDEFGHIJKLMNOP'[i]}", single_word=single, lstrip=left, rstrip=right,
                                         normalized=norm)])
    tokenizer.add_tokens([AddedToken("\t\t", lstrip=True, rstrip=True, normalized=False)])  # matches what it has taken along
    tokenizer.add_tokens(["  ", "\n\n", "tokA2", "\u00e9\u00e8", "tok"])
    tokenizer.add_special_tokens([AddedToken("<S>", lstrip=True), AddedToken("<E>", rstrip=True, normalized=True), "\u00e9"])
    return tokenizer


def make(corpus):
    """{name: Tokenizer}"""
    sequence = pre_tokenizers.Sequence
    made = {
        "gpt4": train(corpus, sequence([split(GPT4), byte_level()])),
        "qwen": train(corpus, sequence([split(QWEN), byte_level()]), normalizers.NFC()),
        **{form.__name__.lower(): train(corpus, sequence([split(GPT4), byte_level()]), form())
           for form in (normalizers.NFD, normalizers.NFKC, normalizers.NFKD)},
        "o200k": train(corpus, sequence([split(O200K), byte_level()])),
        "kimi": train(corpus, sequence([split(KIMI), byte_level()])),
        "deepseek": train(corpus, sequence([*map(split, DEEPSEEK), byte_level()])),
        "gpt2": train(corpus, byte_level(prefix=True, use_regex=True)),
        "starcoder": train(corpus, sequence([pre_tokenizers.Digits(True), byte_level(use_regex=True)])),
        "odd": train(corpus, sequence([split(ODD), split(BEHIND), pre_tokenizers.Digits(False), byte_level()]), normalizers.NFD()),
        "removed": train(corpus, sequence([split(r"\w+|[^\w\s]+", "removed", invert=True), byte_level()])),
        "previous": train(corpus, sequence([pre_tokenizers.Split("e", "merged_with_previous"), byte_level()])),
        "next": train(corpus, sequence([split(r"\s", "merged_with_next"), byte_level(use_regex=True, prefix=True)])),
        "contiguous": train(corpus, sequence([split(r"[aeiou ]|\d*", "contiguous"), byte_level()])),
        "whitespace": train(corpus, sequence([pre_tokenizers.Whitespace(), byte_level()])),
        "whitespace_split": train(corpus, sequence([byte_level(use_regex=True), pre_tokenizers.WhitespaceSplit(),
                                                    pre_tokenizers.Digits(True)])),
        "byte_normalizer": train(corpus, None, normalizers.ByteLevel()),
        "words": train(corpus, pre_tokenizers.Whitespace(), decoder=False, initial_alphabet=[],
                       model=models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), end_of_word_suffix="</w>",
                       special_tokens=["<unk>"], limit_alphabet=200),
        "pieces": train(corpus, pre_tokenizers.Whitespace(), initial_alphabet=[], continuing_subword_prefix="##",
                        model=models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), special_tokens=["<unk>"]),
        "llama2": byte_fallback(
            corpus, normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), None,
            decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                               decoders.Strip(" ", 1, 0)]), fuse_unk=False),
        "unk": byte_fallback(corpus, normalizers.Replace(Regex(r"\s+"), " "), pre_tokenizers.Metaspace(prepend_scheme="first"),
                             decoders.Metaspace(prepend_scheme="first"), fuse_unk=True),
        "falcon": train(corpus, sequence([pre_tokenizers.Punctuation("contiguous"), byte_level(use_regex=True),
                                          pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")])),
        "folded": train(corpus, sequence([split(FOLDED), byte_level()]), normalizers.NFKD()),
        "clip": train(corpus, sequence([split(r"<\|\w+\|>|'s|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+", "removed", invert=True), byte_level()]),
                      normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " ")]),
                      decoders.BPEDecoder("</w>"), model=models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"),
                      end_of_word_suffix="</w>", special_tokens=["<|endoftext|>"]),
        "bert": train(corpus, sequence([pre_tokenizers.BertPreTokenizer(), pre_tokenizers.CharDelimiterSplit("a"),
                                        pre_tokenizers.FixedLength(7)]),
                      normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()]), decoders.WordPiece("##"),
                      initial_alphabet=[], continuing_subword_prefix="##",
                      model=models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), special_tokens=["<unk>"]),
        "awkward": with_awkward_added_tokens(corpus),
        "large": large(),
    }
    made["llama3"] = with_model(made["gpt4"], ignore_merges=True)
    made["llama3"].post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>:1", pair="$A $B",
        special_tokens=[(t, made["llama3"].token_to_id(t)) for t in ("<|im_start|>", "<|im_end|>")])])
    made["clip"].post_processor = processors.RobertaProcessing(("<|im_end|>", 7), ("<|im_start|>", 9))
    made["falcon"] = with_model(made["falcon"], merges=["#version: 0.2", *map(" ".join, json.loads(made["falcon"].to_str())["model"]["merges"])])
    return made
