// What keeps a hostile template within its budget while values are made.
#include <algorithm>
#include <cstddef>

#include "text/jinja/object.h"

namespace glint::jinja {
namespace {

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

}  // namespace

Status Runtime::check_depth(int held) {
  if (held < kMaxValueDepth) return Ok{};
  return Error{ErrorCode::kResourceExhausted,
               str("values nest more than ", kMaxValueDepth, " deep")};
}

Status Runtime::Nesting::check() const {
  // Of the 8 MiB that a thread has. Only builds with sanitizers, whose frames are large, get there.
  constexpr std::ptrdiff_t kMaxStackBytes = std::ptrdiff_t{4} << 20;
  const int limit = runtime_.budget.limits().max_depth;
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  if (runtime_.depth_ <= limit && runtime_.stack_base_ - here < kMaxStackBytes) return Ok{};
  return Error{ErrorCode::kResourceExhausted,
               str("the template nests or recurses more than ", limit, " deep")};
}

void Runtime::bury(std::vector<std::optional<Value>> values) {
  buried_.insert(buried_.end(), std::make_move_iterator(values.begin()),
                 std::make_move_iterator(values.end()));
  if (is_burying_) return;
  is_burying_ = true;
  while (!buried_.empty()) {
    const std::optional<Value> last = std::move(buried_.back());
    buried_.pop_back();
  }
  is_burying_ = false;
}

Result<Value> Runtime::make_list(std::vector<Value> items) {
  const int depth = depth_of(items);
  GLINT_TRY_STATUS(check_depth(depth));
  GLINT_TRY_STATUS(budget.spend_bytes(items.size() * sizeof(Value) + sizeof(Value::List)));
  return Value(std::make_shared<const Value::List>(Value::List{std::move(items), depth + 1}));
}

Result<Value> Runtime::make_tuple(std::vector<Value> items, bool is_group) {
  const int depth = depth_of(items);
  GLINT_TRY_STATUS(check_depth(depth));
  GLINT_TRY_STATUS(budget.spend_bytes(items.size() * sizeof(Value) + sizeof(Value::Tuple)));
  return Value(
      std::make_shared<const Value::Tuple>(Value::Tuple{{std::move(items), depth + 1}, is_group}));
}

Result<Value> Runtime::make_dict(Dict dict) {
  constexpr std::size_t kEntryBytes = 2 * sizeof(Dict::Entry);  // with its part of the index
  GLINT_TRY_STATUS(check_depth(dict.depth() - 1));
  GLINT_TRY_STATUS(budget.spend_bytes(dict.size() * kEntryBytes + sizeof(Dict)));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Result<Value> Runtime::make_string(std::string text, bool markup) {
  GLINT_TRY_STATUS(budget.spend_bytes(text.size() + sizeof(Str)));
  return Value(std::move(text), markup);
}

Result<Value> Object::call(Runtime&, const Arguments&) {
  return invalid("'" + type_name() + "' object is not callable");
}

}  // namespace glint::jinja
