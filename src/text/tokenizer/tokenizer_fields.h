// Reads the members of one object of a tokenizer.json. The first problem is kept and reported by
// `done`, which also refuses members that nobody asked for: what we do not know could change the
// tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

class Fields {
 public:
  // `where` names the object in messages: "pre_tokenizer.pretokenizers[1]". `object` must outlive
  // this.
  Fields(const Json& object, std::string where);

  // The member, or after recording a problem an empty value of the type.
  std::string text(std::string_view key);
  bool flag(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max);
  const Json::Array& list(std::string_view key);
  const Json::Object& object(std::string_view key);
  const Json& value(std::string_view key);

  // The member, or `absent` (null) if there is none or it is null.
  std::string text_or(std::string_view key, std::string absent);
  bool flag_or(std::string_view key, bool absent);
  const Json& value_or_null(std::string_view key);

  // Accepts members whatever they hold: they cannot change the tokens.
  void skip(std::initializer_list<std::string_view> keys);

  void fail(std::string problem);
  const std::string& where() const { return where_; }
  Status done();
  // "WHERE: unsupported type "X"; glint knows A, B, C", or the problem there was before.
  Status unknown_type(std::string_view type, std::string_view known);

 private:
  const Json& expect(std::string_view key, bool (Json::*is)() const, const char* expected);

  const Json& object_;
  const std::string where_;
  std::vector<std::string_view> known_;
  std::optional<Error> problem_;
};

// Calls `parse` for each of the steps that a "Sequence" lists under `key`; `depth` counts sequences
// in sequences.
using ParseStep = std::function<Status(const Json& step, const std::string& where, int depth)>;
Status parse_sequence(Fields& fields, std::string_view key, int depth, const ParseStep& parse);

// A token of tokenizer_config.json: "<s>", or as older files have it {"content": "<s>", ...}.
inline const Json& token_text(const Json& token) {
  const Json* const content = token.find("content");
  return content ? *content : token;
}

}  // namespace glint
