// Value: what a template computes with. The kinds and their behaviour are Python's, because
// templates are written for jinja2. Values are immutable and shared, except for the few Objects
// that templates can change (object.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace glint::jinja {

using Int = std::int64_t;

class Dict;
class Object;
struct Items;

struct Undefined {
  std::string hint = {};  // the whole message, if it is not made of the other two
  // The thing that lacks the attribute: "dict object"; empty if a variable is missing.
  std::string owner = {};
  std::string name = {};
  std::string message() const;
};

struct Str {
  std::string bytes;   // UTF-8
  std::size_t length;  // in code points
  bool markup;         // `safe` made it: a text that is added to it gets escaped
  bool is_ascii() const { return length == bytes.size(); }
};

struct BigInt {  // an integer outside int64: kept and printed, not computed with
  std::string digits;
};

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,
  kFloat,
  kString,
  kItems,
  kDict,
  kObject
};

class Value {
 public:
  Value() : state_(None{}) {}
  Value(bool value) : state_(value) {}
  Value(int value) : state_(Int{value}) {}
  Value(Int value) : state_(value) {}
  Value(double value) : state_(value) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(std::string text, bool markup = false);
  Value(BigInt value) : state_(std::make_shared<const BigInt>(std::move(value))) {}
  Value(Undefined why) : state_(std::make_shared<const Undefined>(std::move(why))) {}
  Value(std::shared_ptr<const Items> items) : state_(std::move(items)) {}
  Value(std::shared_ptr<const Dict> dict) : state_(std::move(dict)) {}
  Value(std::shared_ptr<Object> object) : state_(std::move(object)) {}
  Value(const void*) = delete;

  Kind kind() const { return static_cast<Kind>(state_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_int() const { return kind() == Kind::kInt || is_bool(); }  // Python: True is an int
  bool is_float() const { return kind() == Kind::kFloat; }
  bool is_number() const { return is_int() || is_float() || kind() == Kind::kBigInt; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_items() const { return kind() == Kind::kItems; }
  bool is_list() const;
  bool is_tuple() const;
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_object() const { return kind() == Kind::kObject; }
  bool is_markup() const { return is_string() && as_str().markup; }

  // Each aborts if the value is of another kind.
  bool as_bool() const { return std::get<bool>(state_); }
  Int as_int() const { return is_bool() ? Int{as_bool()} : std::get<Int>(state_); }
  double as_float() const { return std::get<double>(state_); }
  const std::string& big_digits() const { return get<BigInt>().digits; }
  const Str& as_str() const { return get<Str>(); }
  const std::string& text() const { return as_str().bytes; }
  const Items& as_items() const { return get<Items>(); }
  const std::vector<Value>& items() const;
  const Dict& as_dict() const { return get<Dict>(); }
  const Undefined& as_undefined() const { return get<Undefined>(); }
  const std::shared_ptr<Object>& object() const {
    return std::get<std::shared_ptr<Object>>(state_);
  }

  // The object as a T, or null if the value is something else.
  template <class T>
  T* object_as() const {
    return is_object() ? dynamic_cast<T*>(object().get()) : nullptr;
  }

  // How deep it nests: 0 for what holds no other values.
  int depth() const;

  // Python's `is`, but for texts, which are compared.
  bool same_as(const Value& other) const;

  // type(x).__name__: "int", "str", "NoneType".
  std::string type_name() const;

 private:
  struct None {
    bool operator==(const None&) const = default;
  };
  template <class T>
  const T& get() const {
    return *std::get<std::shared_ptr<const T>>(state_);
  }

  std::variant<std::shared_ptr<const Undefined>, None, bool, Int, std::shared_ptr<const BigInt>,
               double, std::shared_ptr<const Str>, std::shared_ptr<const Items>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      state_;
};

// Everything that is a row of values, all of it in memory: a generator of Python is one whose
// values can be taken once.
struct Items {
  enum Type { kList, kTuple, kRange, kKeys, kValues, kPairs, kGenerator };

  Type type;
  std::vector<Value> values;
  int depth;                      // 1 + the deepest value's
  mutable bool is_taken = false;  // of a generator
  // A generator that fails does so when its values are taken: nobody may ever take them.
  std::optional<Error> failure = {};
};

// An ordered dict. Its keys are texts and integers, told apart by their key text (operations.h).
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

  // Null if there is no such key.
  const Value* find(std::string_view key_text) const;

  // A new key goes to the end; an old one keeps its place.
  void set(std::string key_text, Value key, Value value);

  // Key text -> place in entries().
  const std::map<std::string, std::size_t, std::less<>>& index() const { return index_; }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  int depth_ = 1;
};

}  // namespace glint::jinja
