#include "text/tokenizer/tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tokenizer_bpe.h"
#include "text/tokenizer/tokenizer_bytes.h"
#include "text/tokenizer/tokenizer_fields.h"
#include "text/tokenizer/tokenizer_template.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

// A vocabulary of 150,000 and its merges have under two million.
constexpr std::size_t kMaxValues = std::size_t{1} << 24;

// Null or NFC, or a sequence of them.
Status parse_normalizer(const Json& json, const std::string& where, int depth, bool& nfc) {
  if (json.is_null()) return Ok{};
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "Sequence") {
    return parse_sequence(fields, "normalizers", depth,
                          [&nfc](const Json& step, const std::string& at, int below) {
                            return parse_normalizer(step, at, below, nfc);
                          });
  }
  if (type != "NFC") return fields.unknown_type(type, "Sequence, NFC");
  nfc = true;
  return fields.done();
}

Status check_decoder(const Json& json) {
  Fields fields(json, "decoder");
  const std::string type = fields.text("type");
  if (type != "ByteLevel") return fields.unknown_type(type, "ByteLevel");
  fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});  // for encoding
  return fields.done();
}

}  // namespace

struct Tokenizer::Parts {
  struct Decoded {  // by id
    std::string text;
    bool known = false;
    bool special = false;
  };

  bool nfc = false;
  Pretokenizer pretokenizer;
  Bpe bpe;
  std::vector<AddedToken> added;
  TextTable added_ids;
  AddedTokenFinder raw_finder, normalized_finder;
  TokenTemplate surround;
  std::vector<Decoded> decoded;

  void index_ids();
  TokenId find(std::string_view token) const;  // below 0: there is none
  Status take_surround(const Json& config);
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

TokenId Tokenizer::Parts::find(std::string_view token) const {
  const TokenId id = added_ids.find(token);
  return id >= 0 ? id : bpe.find(token);
}

// A tokenizer_config.json that says whether texts begin and end with a token replaces the template,
// as in transformers.
Status Tokenizer::Parts::take_surround(const Json& config) {
  const auto token_of = [&](const char* name) -> Result<std::optional<TokenId>> {
    const Json* const adds = config.find(str("add_", name));
    const Json* const token = config.find(name);
    if (!adds || *adds != Json(true) || !token || token->is_null()) return std::nullopt;
    const Json& text = token_text(*token);
    const TokenId id = text.is_string() ? find(text.as_string()) : -1;
    if (id >= 0) return id;
    return invalid(str("\"", name, "\" is ", dump_json(text), ", which is no token"));
  };
  if (!config.find("add_bos_token") && !config.find("add_eos_token")) return Ok{};
  GLINT_TRY(const std::optional<TokenId> bos, token_of("bos_token"));
  GLINT_TRY(const std::optional<TokenId> eos, token_of("eos_token"));
  surround = TokenTemplate(bos, eos);
  return Ok{};
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  const bool is_folder = is_directory(path);
  const std::string file = is_folder ? path + "/tokenizer.json" : path;
  Result<std::string> read = read_file(file);
  if (!read.ok() && is_folder && read.error().code == ErrorCode::kNotFound)
    return not_found(read.error().message + "; copy one there");
  GLINT_TRY(const std::string text, std::move(read));
  GLINT_TRY(const std::shared_ptr<Parts> parts, parse_parts(text).in(file));
  const std::string config = path + "/tokenizer_config.json";
  if (is_folder && is_present(config)) {
    GLINT_TRY(const Json json, read_json_file(config, {.max_values = kMaxValues}));
    GLINT_TRY_STATUS(parts->take_surround(json).in(config));
  }
  return Tokenizer(parts);
}

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  GLINT_TRY(const std::shared_ptr<Parts> parts, parse_parts(json));
  return Tokenizer(parts);
}

Result<std::shared_ptr<Tokenizer::Parts>> Tokenizer::parse_parts(std::string_view json) {
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
  GLINT_TRY_STATUS(parse_normalizer(normalizer, "normalizer", 0, parts->nfc));
  GLINT_TRY(parts->pretokenizer, Pretokenizer::parse(pretokenizer));
  GLINT_TRY(parts->bpe, Bpe::parse(model));
  GLINT_TRY(parts->added, parse_added_tokens(added, parts->bpe, parts->nfc));
  GLINT_TRY(parts->raw_finder, AddedTokenFinder::make(parts->added, /*normalized=*/false));
  GLINT_TRY(parts->normalized_finder, AddedTokenFinder::make(parts->added, /*normalized=*/true));
  GLINT_TRY(parts->surround, TokenTemplate::parse(post_processor));
  GLINT_TRY_STATUS(check_decoder(decoder));
  parts->index_ids();
  return parts;
}

namespace {

// One call of encode: from pieces to tokens.
struct Encoder {
  Encoder(const Bpe& bpe, const EncodeOptions& options) : bpe(bpe), options(options) {}

  void word(std::string_view word) {
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

  const auto words = [&](std::string_view piece) {
    std::string kept;
    if (!options.removed.empty() && piece.find(options.removed) != piece.npos) {
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t end = std::min(piece.find(options.removed, at), piece.size());
        kept += piece.substr(at, end - at);
        at = end + options.removed.size();
      }
      piece = kept;
    }
    Status split = parts.pretokenizer.split(piece, encoder.regex_scratch,
                                            [&](std::string_view word) { encoder.word(word); });
    if (!split.ok()) status = std::move(split);
  };
  // Cuts `text` at the finder's tokens; `rest` gets what is between them.
  const auto cut = [&](const AddedTokenFinder& finder, std::string_view text, const auto& rest) {
    const auto visit = [&](std::string_view piece, TokenId id) {
      if (id < 0) return rest(piece);
      encoder.tokens.push_back(id);
    };
    if (options.parse_special && !finder.empty()) return finder.cut(text, visit);
    if (!text.empty()) rest(text);
  };
  cut(parts.raw_finder, text, [&](std::string_view piece) {
    const std::string normalized = parts.nfc ? to_nfc(piece) : std::string();
    cut(parts.normalized_finder, parts.nfc ? normalized : piece, words);
  });
  if (!encoder.status.ok()) return std::move(encoder.status).take_error();
  if (!status.ok()) return std::move(status).take_error();
  std::vector<TokenId>& tokens = encoder.tokens;
  if (options.add_special_tokens) tokens = parts.surround.apply(tokens);
  return std::move(tokens);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += decoded_bytes(id, skip_special);
  return lossy_utf8(bytes);
}

std::string Tokenizer::decoded_bytes(TokenId id, bool skip_special) const {
  const auto token = decoded_token(id, skip_special);
  return token ? letters_to_bytes(*token).value_or(std::string(*token)) : std::string();
}

std::optional<std::string_view> Tokenizer::decoded_token(TokenId id, bool skip_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= parts_->decoded.size()) return std::nullopt;
  const Parts::Decoded& entry = parts_->decoded[static_cast<std::size_t>(id)];
  if (!entry.known || (skip_special && entry.special)) return std::nullopt;
  return entry.text;
}

TokenId Tokenizer::vocab_size() const { return static_cast<TokenId>(parts_->decoded.size()); }

std::string Tokenizer::vocabulary_checksum() const {
  std::string all;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (const auto token = id_to_token(id)) all += str(id, " ", *token, "\n");
  }
  return hex_of(fnv1a(all));
}

std::optional<std::string_view> Tokenizer::id_to_token(TokenId id) const {
  return decoded_token(id, /*skip_special=*/false);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  return decoded_bytes(id, /*skip_special=*/false);
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  const TokenId id = parts_->find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(TokenId id) const {
  return id_to_token(id) && !decoded_token(id, /*skip_special=*/true);
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const { return parts_->added; }

}  // namespace glint
