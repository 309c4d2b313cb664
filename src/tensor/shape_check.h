// ShapeCheck: the shapes of an op's arguments, matched by named dims. The first tensor that uses a
// name binds it; a later one that disagrees aborts with a sentence that says who bound it:
// "sparse_mla: indices[0] is 7, but T is 8 (from q_latent[0])".
//
// Costs some nanoseconds a tensor and allocates nothing unless it fails.
#pragma once

#include <array>
#include <initializer_list>
#include <string>

#include "tensor/weight.h"

namespace glint {

// The element types that an argument may have.
class DTypes {
 public:
  constexpr DTypes(DType dtype) : bits_(1u << static_cast<int>(dtype)) {}
  constexpr DTypes(DType a, DType b) : bits_(DTypes(a).bits_ | DTypes(b).bits_) {}
  constexpr bool has(DType dtype) const { return bits_ >> static_cast<int>(dtype) & 1; }
  std::string describe() const;  // "F32 or BF16"

 private:
  unsigned bits_;
};

inline constexpr DTypes kFloats = {DType::kF32, DType::kBF16};

class ShapeCheck {
 public:
  using Names = std::initializer_list<const char*>;

  explicit ShapeCheck(const char* op) : op_(op) {}

  // `x` is given, has one of `dtypes` and these dims, and is row-major without gaps.
  void dense(const char* name, const Tensor& x, DTypes dtypes, Names dims);
  // dense(), but only the elements of the last dim must be neighbours.
  void strided(const char* name, const Tensor& x, DTypes dtypes, Names dims);
  // `w` is given and has these dims. Its data and scales were checked when it was made
  // (check_weight).
  void weight(const char* name, const Weight& w, const char* rows, const char* cols);
  void weights(const char* name, const WeightStack& w, const char* rows, const char* cols);

  // Binds (or compares) `dim` with a size that comes from `source`, which the message names.
  void size(const char* dim, std::int64_t value, const char* source);
  std::int64_t operator[](const char* dim) const;  // must be bound

  // Aborts with "op: message" unless `holds`.
  void require(bool holds, const char* message) const {
    if (!holds) [[unlikely]]
      fail(message);
  }

 private:
  struct Bound {
    const char* dim = nullptr;
    std::int64_t size = 0;
    const char* source = nullptr;
    int axis = -1;  // of `source`; -1 = the source is not a tensor
  };

  void match(const char* name, int axis, const char* dim, std::int64_t value);
  const Bound* find(const char* dim) const;
  [[noreturn]] void fail(const std::string& message) const;

  const char* op_;
  int count_ = 0;
  std::array<Bound, 12> bound_ = {};
};

}  // namespace glint
