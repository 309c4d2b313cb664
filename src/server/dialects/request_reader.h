// RequestReader: the fields of a request, each named once. Given a JSON object it checks types and
// ranges and stores values; given none it writes down what it would accept. So the validation and
// /openapi.json are the same lines of code.
//
//   r.number("temperature", out.temperature, {0, 2});
//
// A member that is absent or null leaves the value as it is. Members without a line are ignored.
// The first error is kept, with the member's path.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/types.h"
#include "server/errors.h"

namespace glint {

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
};

struct IntegerRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<int>::max();
};

class RequestReader {
 public:
  // Reads `json`, which is at `path` ("" for the body). Both outlive the reader.
  RequestReader(const Json& json, std::string path, std::optional<ApiError>& error);
  // Describes: fills `schema`, {"type": "object", "properties": {...}, "required": [...]}.
  explicit RequestReader(Json& schema);

  // From now on, where one of these members is a list, its item `index`, which must be there, is
  // read in its place. Describing: each of them may be a list as well; they must be described.
  void read_items(std::span<const char* const> names, std::size_t index);

  bool reading() const { return json_ != nullptr; }
  bool ok() const { return !reading() || !*error_; }
  const Json* json() const { return json_; }

  // The member; null if absent or null, or if an error was found.
  const Json* find(const char* name) const;
  std::string path(const char* name) const;
  // A reader of an item of a list that is there.
  RequestReader item(const char* name, std::size_t index) const;

  void boolean(const char* name, bool& out);
  void boolean(const char* name, std::optional<bool>& out);
  void number(const char* name, double& out, NumberRange range = {});
  void integer(const char* name, int& out, IntegerRange range = {});
  void integer(const char* name, std::optional<int>& out, IntegerRange range = {});
  // Any 64 bits; negative numbers wrap.
  void seed(const char* name, std::optional<std::uint64_t>& out);
  void text(const char* name, std::string& out);
  void one_of(const char* name, std::string& out, std::initializer_list<const char*> values);
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  // A text or a list of texts, of `max_bytes` in all.
  void texts(const char* name, std::vector<std::string>& out, int max_items,
             std::size_t max_bytes = kNoLimit);
  // A list of tokens below `vocab_size`.
  void tokens(const char* name, std::vector<TokenId>& out, TokenId vocab_size,
              std::size_t max_items = kNoLimit);
  // Any value of `kinds` ("object", "array", "string", ...; none: any).
  void value(const char* name, Json& out, std::initializer_list<const char*> kinds = {});
  // An object with fields of its own.
  void group(const char* name, const std::function<void(RequestReader&)>& fields);
  // A list of objects.
  void list(const char* name, std::size_t max_items,
            const std::function<void(RequestReader&)>& fields);
  void list(const char* name, const std::function<void(RequestReader&)>& fields) {
    list(name, kNoLimit, fields);
  }

  void require(const char* name);
  // Fails where `list` has more, which the message calls `items`.
  bool is_within(const char* name, const Json& list, std::size_t max_items, const char* items);
  void fail(const char* name, std::string message, std::string code = {});
  // Describes `name` as this schema; nothing while reading. For fields with checks of their own.
  void describe(const char* name, Json schema);

 private:
  // Fails with "NAME is KIND; expected WHAT".
  void expected(const char* name, const Json& found, const std::string& what);
  std::optional<std::int64_t> integer_of(const char* name, IntegerRange range);

  // The member, and whether its item counts.
  std::pair<const Json*, bool> look(const char* name) const;

  const Json* json_ = nullptr;
  std::span<const char* const> items_of_ = {};
  std::size_t item_ = 0;
  std::string path_;
  std::optional<ApiError>* error_ = nullptr;
  Json* schema_ = nullptr;
};

// Reads a request's body with `read(reader)`; fails with the first error.
template <class Read>
ApiStatus read_body(const Json& body, Read read) {
  std::optional<ApiError> error;
  RequestReader reader(body, "", error);
  if (reader.ok()) read(reader);
  if (error) return *std::move(error);
  return Ok{};
}

}  // namespace glint
