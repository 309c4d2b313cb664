"""The tokenizers that tokenizer_oracle.py compares: in the style of each family that is served, trained on the spot."""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [  # its file has line ends as characters
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|start_header_id|>"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def train(corpus, pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=2000, show_progress=False,
                                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>"])
    return tokenizer


def with_model(tokenizer, **changes):
    """The tokenizer with members of its model changed."""
    data = json.loads(tokenizer.to_str())
    data["model"].update(changes)
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
    tokenizer = train(corpus, pre_tokenizers.Sequence([split(GPT4), byte_level()]), normalizers.NFC())
    tokenizer.add_tokens([AddedToken(f"Tok{letter}", normalized=letter in "ACE") for letter in "ABCDEF"])
    tokenizer.add_tokens(["  ", "\n\n", "\t\t", "tokA2", "\u00e9\u00e8", "tok"])
    tokenizer.add_special_tokens(["<S>", AddedToken("<E>", normalized=True), "\u00e9"])
    return tokenizer


def make(corpus):
    """{name: Tokenizer}"""
    sequence = pre_tokenizers.Sequence
    made = {
        "gpt4": train(corpus, sequence([split(GPT4), byte_level()])),
        "qwen": train(corpus, sequence([split(QWEN), byte_level()]), normalizers.NFC()),
        "qwen35": train(corpus, sequence([split(QWEN35), byte_level()]), normalizers.NFC()),
        "cl100k": train(corpus, sequence([split(CL100K, "removed", invert=True), byte_level()])),
        "o200k": train(corpus, sequence([split(O200K), byte_level()])),
        "deepseek": train(corpus, sequence([*map(split, DEEPSEEK), byte_level()]), normalizers.Sequence([])),
        "gpt2": train(corpus, byte_level(use_regex=True)),
        "awkward": with_awkward_added_tokens(corpus),
        "large": large(),
    }
    made["llama3"] = with_model(made["gpt4"], ignore_merges=True)
    made["llama3"].post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>:1", pair="$A $B",
        special_tokens=[(t, made["llama3"].token_to_id(t)) for t in ("<|im_start|>", "<|im_end|>")])])
    lines = ["#version: 0.2", *map(" ".join, json.loads(made["gpt2"].to_str())["model"]["merges"])]
    made["gpt2"] = with_model(made["gpt2"], merges=lines, unk_token="<unk>")
    return made
