#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "base/str.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer_bpe.h"
#include "text/tokenizer/tokenizer_fields.h"
#include "text/tokenizer/tokenizer_template.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

// A vocabulary of 150,000 and its merges have under two million.
constexpr std::size_t kMaxValues = std::size_t{1} << 24;

}  // namespace

struct Tokenizer::Parts {
  struct Decoded {  // by id
    std::string text;
    bool known = false;
    bool special = false;
  };

  Normalizer normalizer;
  Pretokenizer pretokenizer;
  Bpe bpe;
  std::vector<AddedToken> added;
  TextTable added_ids;
  AddedTokenFinder raw_finder, normalized_finder;
  TokenTemplate surround;
  Decoder decoder;
  std::vector<Decoded> decoded;

  void index_ids();
};

void Tokenizer::Parts::index_ids() {
  const auto& texts = bpe.texts();
  decoded.resize(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (texts[id]) decoded[id] = {*texts[id], true, false};
  }
  TextTable special;
  for (const AddedToken& token : added) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= decoded.size()) decoded.resize(id + 1);
    decoded[id] = {token.normalized_content, true, false};
    added_ids.insert(token.content, token.id);
    if (token.special) special.insert(token.content, token.id);
  }
  // By text, as `tokenizers` does: a special token that normalizing changes is not left out.
  for (Decoded& entry : decoded) entry.special = entry.known && special.find(entry.text) >= 0;
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  const std::string file = is_directory(path) ? path + "/tokenizer.json" : path;
  GLINT_TRY(const std::string text, read_file(file));
  return parse(text).in(file);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  GLINT_TRY(const Json root, parse_json(json, {.max_values = kMaxValues}));
  Fields fields(root, "tokenizer.json");
  const std::string version = fields.text_or("version", "1.0");
  if (version != "1.0") fields.fail("unsupported version " + quoted(version));
  // Set for training and saved along; transformers and the servers on it leave them off.
  fields.skip({"truncation", "padding"});
  const Json& normalizer = fields.value_or_null("normalizer");
  const Json& pretokenizer = fields.value_or_null("pre_tokenizer");
  const Json& added = fields.value_or_null("added_tokens");
  const Json& post_processor = fields.value_or_null("post_processor");
  const Json& decoder = fields.value_or_null("decoder");
  const Json& model = fields.value("model");
  GLINT_TRY_STATUS(fields.done());

  auto parts = std::make_shared<Parts>();
  GLINT_TRY(parts->normalizer, Normalizer::parse(normalizer));
  GLINT_TRY(parts->pretokenizer, Pretokenizer::parse(pretokenizer));
  GLINT_TRY(parts->bpe, Bpe::parse(model, parts->pretokenizer.gives_bytes()));
  GLINT_TRY(parts->added, parse_added_tokens(added, parts->bpe, parts->normalizer));
  GLINT_TRY(parts->raw_finder, AddedTokenFinder::make(parts->added, /*normalized=*/false));
  GLINT_TRY(parts->normalized_finder, AddedTokenFinder::make(parts->added, /*normalized=*/true));
  GLINT_TRY(parts->surround, TokenTemplate::parse(post_processor));
  GLINT_TRY(parts->decoder, Decoder::parse(decoder));
  parts->index_ids();
  return Tokenizer(std::move(parts));
}

namespace {

// One call of encode: from pieces to tokens.
struct Encoder final : WordSink {
  Encoder(const Bpe& bpe, const EncodeOptions& options) : bpe(bpe), options(options) {}

  void word(std::string_view word) override {
    if (!status.ok()) return;
    if (word.size() > options.max_word_bytes) {
      status = invalid(str("the text has ", word.size(), " bytes without a break between words; ",
                           options.max_word_bytes, " at most can be encoded"));
      return;
    }
    bpe.encode(word, bpe_scratch, tokens);
    bytes_since_asked += word.size();
    if (bytes_since_asked < kBytesBetweenAsking || !options.cancelled) return;
    bytes_since_asked = 0;
    if (options.cancelled()) status = invalid("the text is not encoded to its end: cancelled");
  }

  static constexpr std::size_t kBytesBetweenAsking = std::size_t{64} << 10;

  const Bpe& bpe;
  const EncodeOptions& options;
  Status status = Ok{};
  std::size_t bytes_since_asked = 0;
  Bpe::Scratch bpe_scratch;
  Regex::Scratch regex_scratch;
  std::vector<TokenId> tokens;
};

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions& options) const {
  const Parts& parts = *parts_;
  std::string replaced;
  if (!is_valid_utf8(text)) text = replaced = lossy_utf8(text);
  Encoder encoder(parts.bpe, options);
  Status status = Ok{};

  const auto words = [&](std::string_view piece, std::size_t start) {
    std::string kept;
    if (!options.removed.empty() && piece.find(options.removed) != piece.npos) {
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t end = std::min(piece.find(options.removed, at), piece.size());
        kept += piece.substr(at, end - at);
        at = end + options.removed.size();
      }
      piece = kept;
      start = std::min(start, piece.size());
    }
    Status split = parts.pretokenizer.split(piece, start, encoder.regex_scratch, encoder);
    if (!split.ok()) status = std::move(split);
  };
  const auto normalized = [&](std::string_view piece, std::size_t start) {
    const auto visit = [&](std::string_view gap, TokenId id) {
      if (id >= 0) {
        encoder.tokens.push_back(id);
      } else {
        const auto begin = static_cast<std::size_t>(gap.data() - piece.data());
        words(gap, start > begin ? start - begin : 0);
      }
    };
    if (options.parse_special && !parts.normalized_finder.empty()) {
      parts.normalized_finder.cut(piece, visit);
    } else if (!piece.empty()) {
      visit(piece, -1);
    }
  };
  const auto raw = [&](std::string_view piece, TokenId id) {
    if (id >= 0) {
      encoder.tokens.push_back(id);
      return;
    }
    std::size_t start = 0;  // of the input's first character
    if (piece.data() == text.data()) next_code_point(text, start);
    if (parts.normalizer.is_identity()) return normalized(piece, start);
    std::string changed(piece);
    Status normalizing = parts.normalizer.apply(changed, start, encoder.regex_scratch);
    if (!normalizing.ok()) status = std::move(normalizing);
    normalized(changed, start);
  };
  if (options.parse_special && !parts.raw_finder.empty()) {
    parts.raw_finder.cut(text, raw);
  } else if (!text.empty()) {
    raw(text, -1);
  }
  if (!encoder.status.ok()) return std::move(encoder.status).take_error();
  if (!status.ok()) return std::move(status).take_error();
  if (encoder.bpe_scratch.lacks_unk) {
    return invalid(str("the text needs the unk_token ", quoted(parts.bpe.unk_token()),
                       ", which is not in the vocabulary"));
  }
  std::vector<TokenId>& tokens = encoder.tokens;
  if (options.add_special_tokens) tokens = parts.surround.apply(tokens);
  return std::move(tokens);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  Decoder::Stream stream(parts_->decoder);
  for (const TokenId id : ids) {
    if (const auto token = decoded_token(id, skip_special)) stream.add(*token);
  }
  stream.finish();
  return stream.take();
}

std::optional<std::string_view> Tokenizer::decoded_token(TokenId id, bool skip_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= parts_->decoded.size()) return std::nullopt;
  const Parts::Decoded& entry = parts_->decoded[static_cast<std::size_t>(id)];
  if (!entry.known || (skip_special && entry.special)) return std::nullopt;
  return entry.text;
}

const Decoder& Tokenizer::decoder() const { return parts_->decoder; }

TokenId Tokenizer::vocab_size() const { return static_cast<TokenId>(parts_->decoded.size()); }

std::optional<std::string_view> Tokenizer::id_to_token(TokenId id) const {
  return decoded_token(id, /*skip_special=*/false);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const auto token = id_to_token(id);
  return token ? parts_->decoder.bytes(*token) : std::string();
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  TokenId id = parts_->added_ids.find(token);
  if (id < 0) id = parts_->bpe.find(token);
  if (id < 0) return std::nullopt;
  return id;
}

bool Tokenizer::is_special(TokenId id) const {
  return id_to_token(id) && !decoded_token(id, /*skip_special=*/true);
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const { return parts_->added; }

}  // namespace glint
