#include "text/tokenizer_length.h"

#include "base/str.h"
#include "text/tokenizer_bpe.h"
#include "text/tokenizer_fields.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 53;
constexpr std::int64_t kMaxPadding = std::int64_t{1} << 24;  // it takes memory

std::size_t size_of(Fields& fields, std::string_view key, std::int64_t max) {
  return static_cast<std::size_t>(fields.integer(key, 0, max));
}

bool is_left(Fields& fields) {
  const std::string direction = fields.text_or("direction", "Right");
  if (direction != "Left" && direction != "Right")
    fields.fail("unknown direction " + quoted(direction));
  return direction == "Left";
}

}  // namespace

Result<LengthRules> LengthRules::parse(const Json& truncation, const Json& padding) {
  LengthRules rules;
  if (!truncation.is_null()) GLINT_TRY_STATUS(rules.parse_truncation(truncation));
  if (!padding.is_null()) GLINT_TRY_STATUS(rules.parse_padding(padding));
  return rules;
}

Status LengthRules::parse_truncation(const Json& json) {
  Fields fields(json, "truncation");
  Truncation rule;
  rule.max_length = size_of(fields, "max_length", kMaxLength);
  rule.stride = size_of(fields, "stride", kMaxLength);
  rule.at_left = is_left(fields);
  const std::string strategy = fields.text("strategy");
  if (strategy == "OnlyFirst") {
    rule.strategy = Truncation::kOnlyFirst;
  } else if (strategy == "OnlySecond") {
    rule.strategy = Truncation::kOnlySecond;
  } else if (strategy != "LongestFirst") {
    fields.fail("unknown strategy " + quoted(strategy));
  }
  truncation_ = rule;
  return fields.done();
}

Status LengthRules::parse_padding(const Json& json) {
  Fields fields(json, "padding");
  Padding rule;
  const Json& strategy = fields.value("strategy");  // "BatchLongest" or {"Fixed": 512}
  if (strategy.is_object()) {
    Fields fixed(strategy, "padding.strategy");
    rule.length = size_of(fixed, "Fixed", kMaxPadding);
    GLINT_TRY_STATUS(fixed.done());
  } else if (!strategy.is_string() || strategy.as_string() != "BatchLongest") {
    fields.fail("unknown strategy " + dump_json(strategy));
  }
  if (!fields.value_or_null("pad_to_multiple_of").is_null())
    rule.multiple = size_of(fields, "pad_to_multiple_of", kMaxPadding);
  rule.at_left = is_left(fields);
  rule.id = static_cast<TokenId>(fields.integer("pad_id", 0, Bpe::kMaxId));
  fields.skip({"pad_type_id", "pad_token"});
  padding_ = rule;
  return fields.done();
}

Status LengthRules::cut(std::vector<TokenId>& ids, std::size_t num_added) const {
  if (!truncation_) return Ok{};
  const auto& [max_length, stride, at_left, strategy] = *truncation_;
  // `tokenizers` has no limit where the added tokens alone are over it.
  if (num_added > max_length || ids.size() <= max_length - num_added) return Ok{};
  const std::size_t length = max_length - num_added;
  if (strategy == Truncation::kOnlySecond && length > 0)
    return invalid("truncation: the strategy OnlySecond cannot cut a single text");
  if (length > 0 && stride >= length) {
    return invalid(str("truncation: the stride ", stride, " is not less than the length ", length));
  }
  if (at_left) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(length));
  } else {
    ids.resize(length);
  }
  return Ok{};
}

void LengthRules::fill(std::vector<TokenId>& ids) const {
  if (!padding_) return;
  std::size_t length = padding_->length.value_or(ids.size());
  if (padding_->multiple > 0) {
    length = (length + padding_->multiple - 1) / padding_->multiple * padding_->multiple;
  }
  if (length <= ids.size()) return;
  ids.insert(padding_->at_left ? ids.begin() : ids.end(), length - ids.size(), padding_->id);
}

}  // namespace glint
