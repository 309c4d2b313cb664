#include "backends/cpu/products.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/isa.h"
#include "backends/cpu/testing.h"
#include "base/thread_pool.h"
#include "ops/linear.h"

namespace glint::cpu {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                     WeightFormat::kFp8Block, WeightFormat::kNvfp4};

struct Shape {
  std::int64_t T, N, K;
};
// Whole panels and ragged ones, one chunk of k and several, odd sizes.
constexpr Shape kShapes[] = {{1, 64, 512},
                             {2, 32, 256},
                             {5, 33, 48},
                             {7, 96, 1040},
                             {16, 17, 192},
                             {29, 128, 320},
                             {600, 32, 64},
                             // ... and panels in turns, with one stretch of tokens and two
                             {40, 640, 608},
                             {515, 512, 272}};

// out = x * weight^T by the products of `kernels`.
std::vector<float> product(const Kernels& kernels, ThreadPool& pool, const Weight& weight,
                           const Tensor& x) {
  Products products(kernels, pool);
  Growing copy;
  std::vector<float> out(x.dim(0) * weight.rows);
  const Product one[] = {{.weight = weight,
                          .x = products.rows_of(x, products.in_bf16(x.dtype, weight.format), copy),
                          .out = Tensor(out.data(), DType::kF32, {x.dim(0), weight.rows})}};
  products.run(one);
  return out;
}

std::vector<double> exact_product(const Weight& weight, const Tensor& x) {
  const std::int64_t T = x.dim(0), N = weight.rows, K = weight.cols;
  std::vector<double> out(T * N);
  std::vector<float> row(K);
  with_float_type(x.dtype, [&](auto type) {
    for (std::int64_t n = 0; n < N; ++n) {
      dequantize_row(weight, n, row.data());
      for (std::int64_t t = 0; t < T; ++t) {
        for (std::int64_t k = 0; k < K; ++k) {
          out[t * N + n] += double{to_float(x.row<decltype(type)>(t)[k])} * row[k];
        }
      }
    }
  });
  return out;
}

double relative_error(const std::vector<float>& out, const std::vector<double>& exact) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    error += (out[i] - exact[i]) * (out[i] - exact[i]), norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

class ProductsTest : public IsaTest {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
  ThreadPool pool_{2};
};

TEST_P(ProductsTest, equals_the_exact_product_in_every_format_and_type) {
  for (const WeightFormat format : kFormats) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Shape& s : kShapes) {
        if (format == WeightFormat::kNvfp4 && s.K % kNvfp4Group) continue;
        const RandomWeight weight(format, s.N, s.K, 7);
        const RandomTensor x(dtype, {s.T, s.K}, 8);
        const std::vector<float> out = product(kernels(), pool_, weight.view, x.view);
        // f32 out: even bf16 activations leave only the error of an f32 sum.
        EXPECT_LT(relative_error(out, exact_product(weight.view, x.view)), kLinearTolerance.f32)
            << name_of(format) << " " << name_of(dtype) << " T " << s.T << " N " << s.N << " K "
            << s.K;
      }
    }
  }
}

TEST_P(ProductsTest, a_row_has_the_same_bits_in_every_batch_layout_and_thread_count) {
  ThreadPool one(1);
  for (const WeightFormat format : kFormats) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::int64_t T = 39, N = 80, K = 784;
      const RandomWeight weight(format, N, K, 9);
      const RandomTensor x(dtype, {T, K}, 10);
      const std::vector<float> whole = product(kernels(), pool_, weight.view, x.view);
      const PackedWeight packed(kernels(), pool_, weight.view);
      EXPECT_EQ(product(kernels(), one, packed.view, x.view), whole) << name_of(format);
      for (std::int64_t t = 0, count = 1; t < T; t += count, ++count) {
        const Tensor part = x.view.slice(0, t, std::min(count, T - t));
        const std::vector<float> expected(whole.begin() + t * N,
                                          whole.begin() + std::min(t + count, T) * N);
        EXPECT_EQ(product(kernels(), pool_, packed.view, part), expected)
            << name_of(format) << " " << name_of(dtype) << " rows " << t << " + " << count;
        EXPECT_EQ(product(kernels(), one, weight.view, part), expected);
      }
    }
  }
}

TEST_P(ProductsTest, multiplies_rows_that_each_thread_copies_like_those_in_order) {
  const std::int64_t N = 640, K = 272;
  for (const WeightFormat format : kFormats) {
    const RandomWeight weight(format, N, K, 17);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const RandomTensor x(dtype, {50, K}, 18);
      const std::vector<float> all = product(kernels(), pool_, weight.view, x.view);
      for (const std::int64_t T : {1, 3, 37, 530}) {
        std::vector<std::int32_t> places(T);
        for (std::int64_t t = 0; t < T; ++t) places[t] = static_cast<std::int32_t>(t * 7 % 50);
        std::vector<float> out(2 * T * N);
        std::vector<Product> two;  // of the same size, with different rows
        for (std::int64_t i = 0; i < 2; ++i) {
          two.push_back({.weight = weight.view,
                         .source = {.x = x.view, .places = places.data() + i, .count = T - i},
                         .out = Tensor(&out[i * T * N], DType::kF32, {T - i, N})});
        }
        Products(kernels(), pool_).run(two);
        for (std::int64_t t = 0; t < T; ++t) {
          const auto expected = all.begin() + places[t] * N;
          EXPECT_TRUE(std::equal(expected, expected + N, out.begin() + t * N)) << t << " of " << T;
          if (t == 0) continue;
          EXPECT_TRUE(std::equal(expected, expected + N, out.begin() + (T + t - 1) * N)) << t;
        }
      }
    }
  }
}

TEST_P(ProductsTest, multiplies_gate_and_up_with_silu_like_the_single_steps) {
  for (const auto& [T, N, K] : {Shape{9, 48, 160}, Shape{37, 528, 272}}) {
    const RandomWeight gate(WeightFormat::kBF16, N, K, 11), up(WeightFormat::kFp8Block, N, K, 12);
    const RandomTensor x(DType::kBF16, {T, K}, 13);
    const std::vector<double> g = exact_product(gate.view, x.view),
                              u = exact_product(up.view, x.view);
    std::vector<float> out(T * N);
    std::vector<double> expected(T * N);
    for (std::size_t i = 0; i < g.size(); ++i) expected[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    Products products(kernels(), pool_);
    Growing copy;
    const Product fused[] = {{.weight = gate.view,
                              .up = up.view,
                              .x = products.rows_of(x.view, kernels().has_bf16, copy),
                              .out = Tensor(out.data(), DType::kF32, {T, N})}};
    products.run(fused);
    EXPECT_LT(relative_error(out, expected), 2e-6) << "T " << T;
  }
}

TEST_P(ProductsTest, decodes_every_fp8_and_nvfp4_code) {
  const std::int64_t K = 256, N = 16;
  RandomWeight fp8(WeightFormat::kFp8Block, N, K, 14);
  for (int i = 0; i < K; ++i) fp8.data[i] = static_cast<std::byte>((i & 0x7f) == 0x7f ? 0 : i);
  RandomWeight nvfp4(WeightFormat::kNvfp4, N, K, 15);
  for (int i = 0; i < K / 2; ++i) nvfp4.data[i] = static_cast<std::byte>(i * 2);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    RandomTensor x(dtype, {K, K}, 16);
    with_float_type(dtype, [&](auto type) {  // the identity: out[t][n] = weight[n][t]
      using T = decltype(type);
      for (int i = 0; i < K * K; ++i) x.view.ptr<T>()[i] = from_float<T>(i % (K + 1) == 0);
    });
    for (const Weight& weight : {fp8.view, nvfp4.view}) {
      const std::vector<float> out = product(kernels(), pool_, weight, x.view);
      std::vector<float> row(K);
      dequantize_row(weight, 0, row.data());
      for (int k = 0; k < K; ++k) EXPECT_FLOAT_EQ(out[k * N], row[k]) << "code at " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ProductsTest, testing::ValuesIn(kAllIsas), isa_name);

}  // namespace
}  // namespace glint::cpu
