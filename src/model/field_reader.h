// FieldReader: typed members of a JSON object, with the range each must lie in.
//
// The first problem is kept and every later read returns a harmless value, so that a parser lists
// its fields one after another and asks for status() once. Internal to model/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"

namespace glint {

class FieldReader {
 public:
  // `object` must outlive the reader; something else than an object is the first problem.
  explicit FieldReader(const Json& object);

  // A member that is absent or null counts as not given.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Json* find(std::string_view key) const;

  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max,
                       std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, double min, double max, std::optional<double> fallback = {});
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  std::vector<std::string> texts(std::string_view key);
  // An id or a list of ids, all below `vocab_size`; none if absent.
  std::vector<TokenId> token_ids(std::string_view key, std::int64_t vocab_size);

  // Records `problem` unless there was one before.
  void fail(std::string problem);
  bool ok() const { return problem_.empty(); }
  Status status() const;

 private:
  const Json* required(std::string_view key, bool has_fallback, const char* wanted);
  void wrong_kind(std::string_view key, const Json& value, const char* wanted);

  const Json& object_;
  std::string problem_;
};

}  // namespace glint
