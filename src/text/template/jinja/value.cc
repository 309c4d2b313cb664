#include "text/template/jinja/value.h"

#include <algorithm>

#include "text/template/jinja/characters.h"
#include "text/template/jinja/object.h"

namespace glint::jinja {

std::string Undefined::message() const {
  if (!hint.empty()) return hint;
  if (owner.empty()) return "'" + name + "' is undefined";
  return "'" + owner + "' has no attribute '" + name + "'";
}

Value::Value(std::string text, bool markup) {
  const std::size_t length = count_code_points(text);
  state_ = std::make_shared<const Str>(Str{std::move(text), length, markup});
}

const std::vector<Value>& Value::items() const { return as_items().values; }
bool Value::is_list() const { return is_items() && as_items().type == Items::kList; }
bool Value::is_tuple() const { return is_items() && as_items().type == Items::kTuple; }

int Value::depth() const {
  if (is_items()) return as_items().depth;
  if (is_dict()) return as_dict().depth();
  return is_object() ? object()->depth() : 0;
}

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  if (kind() == Kind::kBigInt) return big_digits() == other.big_digits();
  return state_ == other.state_;
}

std::string Value::type_name() const {
  static constexpr const char* kNames[] = {"Undefined", "NoneType", "bool", "int",  "int",
                                           "float",     "str",      "",     "dict", ""};
  static constexpr const char* kItemNames[] = {"list",        "tuple",      "range",    "dict_keys",
                                               "dict_values", "dict_items", "generator"};
  if (is_items()) return kItemNames[as_items().type];
  if (is_object()) return object()->type_name();
  return kNames[static_cast<std::size_t>(kind())];
}

const Value* Dict::find(std::string_view key_text) const {
  const auto at = index_.find(key_text);
  return at == index_.end() ? nullptr : &entries_[at->second].value;
}

void Dict::set(std::string key_text, Value key, Value value) {
  depth_ = std::max(depth_, value.depth() + 1);
  const auto [at, is_new] = index_.emplace(std::move(key_text), entries_.size());
  if (is_new) {
    entries_.push_back({std::move(key), std::move(value)});
  } else {
    entries_[at->second].value = std::move(value);
  }
}

}  // namespace glint::jinja
