// The "post_processor" of a tokenizer.json: the tokens that `add_special_tokens` puts around a
// text.
#pragma once

#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {

class TokenTemplate {
 public:
  explicit TokenTemplate(std::optional<TokenId> before = {}, std::optional<TokenId> after = {});
  // Null adds nothing. Fails with the name of what is not supported.
  static Result<TokenTemplate> parse(const Json& json);

  std::vector<TokenId> apply(const std::vector<TokenId>& text) const;

 private:
  Status parse_step(const Json& json, const std::string& where, int depth);
  Status parse_template(Fields& fields);

  // The text's tokens, or tokens of the template.
  using Piece = std::optional<std::vector<TokenId>>;
  std::vector<Piece> pieces_ = {std::nullopt};
  bool is_set_ = false;
};

}  // namespace glint
