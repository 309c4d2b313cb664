#include "text/tokenizer/tokenizer_template.h"

#include <algorithm>

#include "base/str.h"
#include "text/tokenizer/tokenizer_bpe.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {
namespace {

constexpr std::size_t kMaxPieces = 64;

Result<std::vector<TokenId>> parse_ids(const Json& special_token, const std::string& where) {
  Fields fields(special_token, where);
  fields.text("id");
  fields.skip({"tokens"});
  std::vector<TokenId> ids;
  for (const Json& id : fields.list("ids")) {
    if (id.is_int() && id.as_int() >= 0 && id.as_int() <= Bpe::kMaxId) {
      ids.push_back(static_cast<TokenId>(id.as_int()));
    } else {
      fields.fail(str("\"ids\" holds ", id.is_number() ? dump_json(id) : id.kind(),
                      " where a token id belongs"));
    }
  }
  GLINT_TRY_STATUS(fields.done());
  return ids;
}

}  // namespace

TokenTemplate::TokenTemplate(std::optional<TokenId> before, std::optional<TokenId> after) {
  if (before) pieces_.insert(pieces_.begin(), std::vector{*before});
  if (after) pieces_.push_back(std::vector{*after});
}

Result<TokenTemplate> TokenTemplate::parse(const Json& json) {
  TokenTemplate result;
  if (!json.is_null()) GLINT_TRY_STATUS(result.parse_step(json, "post_processor", 0));
  return result;
}

Status TokenTemplate::parse_step(const Json& json, const std::string& where, int depth) {
  Fields fields(json, where);
  const std::string type = fields.text("type");
  if (type == "TemplateProcessing") return parse_template(fields);
  if (type == "Sequence") {
    return parse_sequence(fields, "processors", depth,
                          [this](const Json& step, const std::string& at, int below) {
                            return parse_step(step, at, below);
                          });
  }
  if (type == "ByteLevel") {  // moves offsets, which we do not report
    fields.skip({"add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    return fields.unknown_type(type, "Sequence, ByteLevel, TemplateProcessing");
  }
  return fields.done();
}

Status TokenTemplate::parse_template(Fields& fields) {
  const std::string& where = fields.where();
  if (std::exchange(is_set_, true)) return invalid(where + ": a second template");
  fields.skip({"pair"});  // for two texts at once
  const Json::Array& single = fields.list("single");
  const Json::Object& special_tokens = fields.object("special_tokens");
  GLINT_TRY_STATUS(fields.done());
  if (single.size() > kMaxPieces) {
    return invalid(
        str(where, ": \"single\" has ", single.size(), " pieces, more than ", kMaxPieces));
  }
  pieces_.clear();
  for (std::size_t i = 0; i < single.size(); ++i) {
    const std::string at = str(where, ".single[", i, "]");
    const Json* text = single[i].find("Sequence");
    Fields piece(single[i], at);
    Fields inner(piece.value(text ? "Sequence" : "SpecialToken"), at);
    const std::string id = inner.text("id");
    inner.skip({"type_id"});
    GLINT_TRY_STATUS(piece.done());
    GLINT_TRY_STATUS(inner.done());
    if (text) {
      if (id != "A")
        return invalid(str(at, ": the sequence ", quoted(id), " in a template for one text"));
      pieces_.push_back(std::nullopt);
      continue;
    }
    const Json* token = nullptr;
    for (const auto& [name, value] : special_tokens) {
      if (name == id) token = &value;
    }
    if (!token) return invalid(str(at, ": ", quoted(id), " is not among special_tokens"));
    GLINT_TRY(std::vector<TokenId> ids, parse_ids(*token, str(where, ".special_tokens.", id)));
    pieces_.push_back(std::move(ids));
  }
  // Without special tokens the text would be left out or repeated all the same.
  const auto texts = std::count(pieces_.begin(), pieces_.end(), std::nullopt);
  if (texts != 1)
    return invalid(str(where, ".single holds the text ", texts, " times; only once is supported"));
  return Ok{};
}

std::vector<TokenId> TokenTemplate::apply(const std::vector<TokenId>& text) const {
  std::vector<TokenId> out;
  for (const Piece& piece : pieces_) {
    const std::vector<TokenId>& tokens = piece ? *piece : text;
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

}  // namespace glint
