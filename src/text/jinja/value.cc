#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/characters.h"
#include "text/jinja/object.h"

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

const std::vector<Value>& Value::items() const {
  if (is_tuple()) return get<Tuple>().items;
  return get<List>().items;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return get<List>().depth;
    case Kind::kTuple:
      return get<Tuple>().depth;
    case Kind::kDict:
      return as_dict().depth();
    case Kind::kObject:
      return object()->depth();
    default:
      return 0;
  }
}

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kString:
      return text() == other.text() && is_markup() == other.is_markup();
    case Kind::kBigInt:
      return big_digits() == other.big_digits();
    default:
      return state_ == other.state_;
  }
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return is_markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return is_group() ? "_GroupTuple" : "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return object()->type_name();
  }
  return "";
}

std::string Value::type_description() const {
  if (is_none()) return "None";
  if (is_markup()) return "markupsafe.Markup object";
  if (is_group()) return "jinja2.filters._GroupTuple object";
  if (is_object()) return object()->module() + type_name() + " object";
  return type_name() + " object";
}

const Value* Dict::find(std::string_view key_text) const {
  const auto at = index_.find(key_text);
  return at == index_.end() ? nullptr : &entries_[at->second].value;
}

void Dict::set(std::string key_text, Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  const auto [at, is_new] = index_.emplace(std::move(key_text), entries_.size());
  if (is_new) {
    entries_.push_back({std::move(key), std::move(value)});
  } else {
    entries_[at->second].value = std::move(value);
  }
}

}  // namespace glint::jinja
