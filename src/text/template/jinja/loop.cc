#include "text/template/jinja/loop.h"

#include "base/str.h"

namespace glint::jinja {

Result<const Value*> Loop::advance() {
  GLINT_TRY(const bool more, has_next());
  if (!more) return static_cast<const Value*>(nullptr);
  ++index_;
  before_ = current_;
  current_ = next_++;
  is_known_ = false;
  return &items_[*current_];
}

void Loop::close() {
  items_.resize(next_);
  test_ = nullptr;
}

Result<bool> Loop::has_next() {
  while (test_ && !is_known_ && next_ < items_.size()) {
    GLINT_TRY(is_known_, test_(items_[next_]));
    if (!is_known_) ++next_;
  }
  return next_ < items_.size();
}

Result<Int> Loop::count() {
  if (test_) {  // the rest is tested now
    GLINT_TRY_STATUS(has_next());
    std::size_t kept = next_ + is_known_;
    for (std::size_t i = kept; i < items_.size(); ++i) {
      GLINT_TRY(const bool passes, test_(items_[i]));
      if (passes) items_[kept++] = items_[i];
    }
    items_.resize(kept);
    test_ = nullptr;
  }
  return index_ + 1 + static_cast<Int>(items_.size() - next_);
}

Result<std::optional<Value>> Loop::attribute(std::string_view name) {
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "previtem")
    return before_ ? items_[*before_] : Value(Undefined{.hint = "there is no previous item"});
  if (name == "last" || name == "nextitem") {
    GLINT_TRY(const bool more, has_next());
    if (name == "last") return !more;
    return more ? items_[next_] : Value(Undefined{.hint = "there is no next item"});
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    GLINT_TRY(const Int size, count());
    return name == "length" ? size : size - index_ - (name == "revindex0" ? 1 : 0);
  }
  if (name == "cycle" || name == "changed" || name == "depth" || name == "depth0")
    return invalid(str("loop.", name, " is not supported"));
  return std::nullopt;
}

}  // namespace glint::jinja
