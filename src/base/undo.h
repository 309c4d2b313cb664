// Undo: what takes a beginning back, unless it is kept: of constructors whose next step may throw,
// as std::thread does where the system grants none.
#pragma once

#include <utility>

namespace glint {

template <class Fn>
class Undo {
 public:
  explicit Undo(Fn undo) : undo_(std::move(undo)) {}
  ~Undo() {
    if (!kept_) undo_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void keep() { kept_ = true; }

 private:
  Fn undo_;
  bool kept_ = false;
};

}  // namespace glint
