// Result<T>: a value, or the reason there is none, an Error or another type with a `message`. For
// failures an input can cause.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace glint {

enum class ErrorCode {
  kInvalidArgument,    // the user or a file said something impossible      -> HTTP 400
  kNotFound,           // a path, model or endpoint does not exist          -> HTTP 404
  kUnsupported,        // valid, but this build or device has no kernel for it
  kResourceExhausted,  // no memory, no pages, queue full                   -> HTTP 429
  kUnavailable,        // shutting down, peer lost                          -> HTTP 503
};

struct Error {
  ErrorCode code;
  std::string message;  // one sentence, lower case, names the thing and the value found

  // Adds what we were doing, outermost first: "loading /m/GLM-5: shard 3: bad magic".
  Error in(std::string_view doing) && {
    message.insert(0, std::string(doing) + ": ");
    return std::move(*this);
  }
};

template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // From a U that converts: a value or nothing for an optional, a derived object for a pointer.
  template <class U>
  requires(std::is_class_v<T>&& std::is_convertible_v<U, T>) Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }

  T& value() & { return require_ok(), std::get<0>(state_); }
  const T& value() const& { return require_ok(), std::get<0>(state_); }
  T&& value() && { return require_ok(), std::get<0>(std::move(state_)); }
  const E& error() const { return std::get<1>(state_); }
  E&& take_error() && { return std::get<1>(std::move(state_)); }

  // This result; an error says what we were doing (Error::in).
  Result in(std::string_view doing) && {
    if (!ok()) return std::move(*this).take_error().in(doing);
    return std::move(*this);
  }

 private:
  void require_ok() const { GLINT_CHECK(ok(), error().message); }

  std::variant<T, E> state_;
};

struct Ok {};
using Status = Result<Ok>;

// An error of each code.
inline Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}
inline Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
inline Error unsupported(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message)};
}
inline Error exhausted(std::string message) {
  return {ErrorCode::kResourceExhausted, std::move(message)};
}
inline Error unavailable(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message)};
}

}  // namespace glint

// Unwraps `expr` into `decl`, or returns its error from the calling function.
#define GLINT_TRY(decl, expr)                                    \
  auto GLINT_CAT(result_, __LINE__) = (expr);                    \
  if (!GLINT_CAT(result_, __LINE__).ok())                        \
    return std::move(GLINT_CAT(result_, __LINE__)).take_error(); \
  decl = std::move(GLINT_CAT(result_, __LINE__)).value()

// Returns the error of `expr` (a Status) from the calling function, if it is one.
#define GLINT_TRY_STATUS(expr)                                                        \
  if (auto GLINT_CAT(status_, __LINE__) = (expr); !GLINT_CAT(status_, __LINE__).ok()) \
  return std::move(GLINT_CAT(status_, __LINE__)).take_error()

#define GLINT_CAT(a, b) GLINT_CAT_(a, b)
#define GLINT_CAT_(a, b) a##b
