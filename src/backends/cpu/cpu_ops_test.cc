#include "backends/cpu/cpu_ops.h"

#include <gtest/gtest.h>

#include "backends/cpu/testing.h"
#include "base/thread_pool.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

class CpuOpsTest : public cpu::IsaTest {};

TEST_P(CpuOpsTest, conforms_to_the_reference) {
  ThreadPool pool(2);
  CpuOps ops(GetParam(), pool);
  ReferenceOps oracle;
  conformance::Options options;
#ifdef GLINT_SANITIZED
  // Kernels in f32 have one source for all; beyond avx512_bf16 only products have another, of which
  // `linear` has every format.
  if (GetParam() != CpuIsa::kAvx512 && cpu_has(CpuIsa::kAvx512)) options.name = "bf16";
  if (GetParam() > CpuIsa::kAvx512Bf16) options.op = "linear";
#endif
  int count = 0;
  conformance::run_conformance(ops, oracle, options, [&](const conformance::CaseResult& result) {
    ++count;
    EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
  });
  EXPECT_GT(count, !options.op.empty() ? 80 : options.name.empty() ? 400 : 200);
}

// Tokens whose keys extend each other's share their copies: across the ends of steps and segments,
// with a last group of few heads, several tokens' heads in one panel, a token without keys, and one
// whose keys are others.
TEST_P(CpuOpsTest, attends_to_keys_that_tokens_share_as_it_does_to_those_of_one) {
  const std::int64_t T = 24, latent = 96, rope = 32, k = 640, slots = 1024;
  ThreadPool pool(1);
  CpuOps ops(GetParam(), pool);
  const auto expect_equal = [&](DType dtype, std::int64_t heads) {
    const bool is_f32 = dtype == DType::kF32;
    const cpu::RandomTensor q_latent(dtype, {T, heads, latent}, 1),
        q_rope(dtype, {T, heads, rope}, 3);
    const cpu::RandomTensor keys(dtype, {slots, latent + rope}, 2);
    std::vector<std::int32_t> indices(T * k, -1);
    const int counts[] = {0, 1, 31, 32, 33, 127, 128, 129, 400, 511, 512, 513, 600, 640};
    for (std::int64_t t = 0; t < T; ++t) {
      const int count = counts[t % std::size(counts)];
      for (int j = 0; j < count; ++j) {
        indices[t * k + j] = static_cast<std::int32_t>((j * 37 + (t == 9)) % slots);
      }
    }
    std::vector<std::byte> together(T * heads * latent * size_of(dtype)), alone(together);
    const auto attend = [&](std::int64_t first, std::int64_t count, std::vector<std::byte>& out) {
      ops.sparse_mla(
          {.q_latent = q_latent.view.slice(0, first, count),
           .q_rope = q_rope.view.slice(0, first, count),
           .kv = {.data = keys.view.data,
                  .format = is_f32 ? LatentFormat::kF32 : LatentFormat::kBF16,
                  .num_slots = slots,
                  .latent_dim = static_cast<int>(latent),
                  .rope_dim = static_cast<int>(rope)},
           .indices = Tensor(reinterpret_cast<std::byte*>(indices.data()), DType::kI32, {T, k})
                          .slice(0, first, count),
           .softmax_scale = 0.1f,
           .out = Tensor(out.data(), dtype, {T, heads, latent}).slice(0, first, count),
           .lse = {}});
    };
    attend(0, T, together);
    for (std::int64_t t = 0; t < T; ++t) attend(t, 1, alone);
    EXPECT_EQ(together, alone) << name_of(dtype) << ", heads " << heads;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::int64_t heads : {40, 16, 5}) expect_equal(dtype, heads);
  }
}

TEST(CpuIsa, has_names_that_parse_and_an_error_that_lists_them) {
  for (const CpuIsa isa : cpu::kAllIsas) EXPECT_EQ(parse_cpu_isa(name_of(isa)).value(), isa);
  EXPECT_EQ(parse_cpu_isa("sse2").error().message,
            "\"sse2\" is no instruction set; one of avx2, avx512, avx512_bf16, amx, amx_emulated");
  const Result<CpuIsa> best = best_cpu_isa();
  EXPECT_TRUE(!best.ok() || cpu_has(best.value()));
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuOpsTest, testing::ValuesIn(cpu::kAllIsas), cpu::isa_name);

}  // namespace
}  // namespace glint
