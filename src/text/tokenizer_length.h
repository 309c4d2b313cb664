// The "truncation" and "padding" of a tokenizer.json: the length that an encoding is cut and filled
// up to. They were set for training and saved along; transformers and the servers on it leave them
// off, so encoding applies them only when asked (EncodeOptions::fit_length).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"

namespace glint {

class LengthRules {
 public:
  // Null changes nothing. Fails with the name of what is not supported.
  static Result<LengthRules> parse(const Json& truncation, const Json& padding);

  // Leaves room for the `num_added` tokens that are put around the text.
  Status cut(std::vector<TokenId>& ids, std::size_t num_added) const;
  void fill(std::vector<TokenId>& ids) const;

 private:
  struct Truncation {
    std::size_t max_length = 0, stride = 0;
    bool at_left = false;
    enum Strategy { kLongestFirst, kOnlyFirst, kOnlySecond } strategy = kLongestFirst;
  };
  struct Padding {
    std::optional<std::size_t> length;  // none: that of the text
    std::size_t multiple = 0;
    bool at_left = false;
    TokenId id = 0;
  };

  Status parse_truncation(const Json& json);
  Status parse_padding(const Json& json);

  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
};

}  // namespace glint
