// Shared: a value that copies share and that is not changed once they do: the lists of a request,
// of which each of its answers has one.
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>

namespace glint {

template <class T>
class Shared {
 public:
  Shared() = default;  // an empty T
  Shared(T value) : value_(std::make_shared<T>(std::move(value))) {}
  Shared(std::initializer_list<typename T::value_type> items) : Shared(T(items)) {}

  const T& operator*() const { return value_ ? *value_ : kEmpty; }
  operator const T&() const { return **this; }
  auto begin() const { return (**this).begin(); }
  auto end() const { return (**this).end(); }
  auto data() const { return (**this).data(); }
  auto size() const { return (**this).size(); }
  bool empty() const { return (**this).empty(); }
  const auto& operator[](std::size_t i) const { return (**this)[i]; }

  // To change it: a copy of its own, if others share it.
  T& own() {
    if (!value_ || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }

  bool operator==(const Shared& other) const { return **this == *other; }

 private:
  static inline const T kEmpty = {};
  std::shared_ptr<T> value_;
};

}  // namespace glint
