// Instruction sets, random weights and tensors for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/products.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "tensor/fp8.h"

namespace glint::cpu {

constexpr CpuIsa kAllIsas[] = {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx,
                               CpuIsa::kAmxEmulated};

class IsaTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (!cpu_has(GetParam())) GTEST_SKIP() << "this CPU has no " << name_of(GetParam());
  }
};
inline std::string isa_name(const testing::TestParamInfo<CpuIsa>& info) {
  return name_of(info.param);
}

// Values of spread 1. The data begin at an odd address of their element's alignment, as in a file.
struct RandomTensor {
  RandomTensor(DType dtype, std::initializer_list<std::int64_t> dims, std::uint64_t seed)
      : view(nullptr, dtype, dims) {
    bytes.resize(static_cast<std::size_t>(view.size() * size_of(dtype)) + 64);
    view.data = bytes.data() + size_of(dtype);
    Random random(seed);
    for (std::int64_t i = 0; i < view.size(); ++i) {
      const auto value = static_cast<float>(random.normal());
      if (dtype == DType::kF32) view.ptr<float>()[i] = value;
      if (dtype == DType::kBF16) view.ptr<BF16>()[i] = to_bf16(value);
    }
  }
  std::vector<std::byte> bytes;
  Tensor view;
};

struct RandomWeight {
  RandomWeight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    Random random(seed);
    view = {.format = format, .rows = rows, .cols = cols};
    const auto fill = [&](DType dtype, std::int64_t m, std::int64_t n) {
      data.resize(static_cast<std::size_t>(m * n * size_of(dtype)));
      view.data = Tensor(data.data(), dtype, {m, n});
      for (std::int64_t i = 0; i < m * n; ++i) {
        const auto value = static_cast<float>(random.normal());
        if (dtype == DType::kF32) view.data.ptr<float>()[i] = value;
        if (dtype == DType::kBF16) view.data.ptr<BF16>()[i] = to_bf16(value);
        if (dtype == DType::kF8E4M3) data[i] = static_cast<std::byte>(float_to_e4m3(value * 8));
        if (dtype == DType::kU8) data[i] = static_cast<std::byte>(random.below(256));
      }
    };
    switch (format) {
      case WeightFormat::kF32:
        fill(DType::kF32, rows, cols);
        return;
      case WeightFormat::kBF16:
        fill(DType::kBF16, rows, cols);
        return;
      case WeightFormat::kFp8Block: {
        fill(DType::kF8E4M3, rows, cols);
        const std::int64_t m = fp8_blocks(rows), n = fp8_blocks(cols);
        scale.resize(static_cast<std::size_t>(m * n * 4));
        view.scale = Tensor(scale.data(), DType::kF32, {m, n});
        for (std::int64_t i = 0; i < m * n; ++i) {
          view.scale.ptr<float>()[i] = std::exp(static_cast<float>(random.normal()));
        }
        return;
      }
      case WeightFormat::kNvfp4: {
        fill(DType::kU8, rows, cols / 2);
        scale.resize(static_cast<std::size_t>(rows * cols / kNvfp4Group));
        view.scale = Tensor(scale.data(), DType::kF8E4M3, {rows, cols / kNvfp4Group});
        for (std::byte& s : scale) s = static_cast<std::byte>(1 + random.below(0x70));
        view.global_scale = Tensor(&global_scale, DType::kF32, {1});
        return;
      }
    }
  }
  RandomWeight(const RandomWeight&) = delete;  // view refers to this object
  RandomWeight& operator=(const RandomWeight&) = delete;

  std::vector<std::byte> data, scale;
  float global_scale = 0.37f;
  Weight view;
};

struct PackedWeight {
  PackedWeight(const Kernels& kernels, ThreadPool& pool, const Weight& weight)
      : bytes(make_host_device()->allocate(static_cast<std::size_t>(packed_bytes(weight)))),
        view(packed(weight, bytes.data())) {
    const PackedPair pair = {weight, view};
    pack(kernels, pool, {&pair, 1});
  }
  Buffer bytes;
  Weight view;
};

}  // namespace glint::cpu
