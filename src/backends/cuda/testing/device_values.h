// Values in device memory for the checks of devices.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "base/random.h"
#include "base/str.h"
#include "ops/ops.h"

namespace glint::cuda {

// Row counts that meet every tile size, the last tile filled in part.
inline constexpr std::int64_t kRowCounts[] = {1, 2, 5, 16, 17, 64, 129, 700};

// Device memory and the values in it.
template <class T = BF16>
class Values {
 public:
  // `offset` elements are left out at the start, so that the tensor is as badly aligned as wanted.
  Values(Device& device, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
         int offset = 0)
      : device_(device), buffer_(device.allocate((rows * columns + offset) * sizeof(T))) {
    GLINT_CHECK(buffer_.data(), "no memory for a check");
    tensor_ = Tensor(buffer_.data() + offset * sizeof(T), kDTypeOf<T>, {rows, columns});
    std::vector<T> host(rows * columns);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const std::uint32_t bits = philox(seed, 0, i)[0];
      host[i] = from_float<T>((static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f) * 2.0f);
    }
    device_.copy_in(tensor_.data, host.data(), host.size() * sizeof(T));
  }

  const Tensor& tensor() const { return tensor_; }
  Tensor vector() const { return Tensor(tensor_.data, kDTypeOf<T>, {tensor_.size()}); }
  Weight weight() const {
    return {.format = WeightFormat::kBF16,
            .rows = tensor_.dim(0),
            .cols = tensor_.dim(1),
            .data = tensor_};
  }

 private:
  Device& device_;
  Buffer buffer_;
  Tensor tensor_;
};

// A weight in device memory, of random finite codes.
class CodedWeight {
 public:
  CodedWeight(Device& device, WeightFormat format, std::int64_t rows, std::int64_t cols)
      : codes_(device.allocate(rows * cols * 2)), scales_(device.allocate(rows * cols)) {
    GLINT_CHECK(codes_.data() && scales_.data(), "no memory for a check");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * cols * 2));
    for (std::size_t i = 0; i < bytes.size(); ++i) {  // below 64 as bf16, no NaN as e4m3
      bytes[i] = static_cast<std::uint8_t>(philox(20, 0, i)[0] & 0xbf);
      if (i % 2 == 1) bytes[i] = static_cast<std::uint8_t>((bytes[i] & 0x80) | 0x3f);
    }
    device.copy_in(codes_.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 4 == 3 ? 0x38 : 0x30 + i % 7;
    device.copy_in(scales_.data(), bytes.data(), static_cast<std::size_t>(rows * cols));
    weight_ = {.format = format, .rows = rows, .cols = cols};
    switch (format) {
      case WeightFormat::kFp8Block:
        weight_.data = Tensor(codes_.data(), DType::kF8E4M3, {rows, cols});
        weight_.scale = Tensor(scales_.data(), DType::kF32, {fp8_blocks(rows), fp8_blocks(cols)});
        break;
      case WeightFormat::kNvfp4:
        weight_.data = Tensor(codes_.data(), DType::kU8, {rows, cols / 2});
        weight_.scale = Tensor(scales_.data(), DType::kF8E4M3, {rows, cols / kNvfp4Group});
        weight_.global_scale = Tensor(scales_.data(), DType::kF32, {1});
        break;
      default:
        weight_.data = Tensor(codes_.data(), DType::kBF16, {rows, cols});
    }
  }
  const Weight& weight() const { return weight_; }

 private:
  Buffer codes_, scales_;
  Weight weight_;
};

std::vector<std::byte> bytes_of(Device& device, const Tensor& dense);

// "" or how `got` and `wanted`, both dense, differ.
std::string compare_bits(Device& device, const char* what, const Tensor& got, const Tensor& wanted);

}  // namespace glint::cuda
