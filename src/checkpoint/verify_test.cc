#include "checkpoint/verify.h"

#include <atomic>
#include <cmath>
#include <limits>

#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_files.h"

namespace glint {
namespace {

TEST(Verify, finds_what_is_no_number_in_every_float_type) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const TestDir dir;
  dir.write(
      "model.safetensors",
      safetensors_file({{"fine", "F32", "[2]", bytes_of_values<float>({3.4e38f, -0.0f})},
                        {"f32", "F32", "[3]", bytes_of_values<float>({1, NAN, -kInf})},
                        {"bf16", "BF16", "[2]", bytes_of_values<std::uint16_t>({0x7f7f, 0xff80})},
                        {"f16", "F16", "[1]", bytes_of_values<std::uint16_t>({0x7e00})},
                        {"e4m3", "F8_E4M3", "[3]", "\x7e\xff\x7f"},
                        {"e5m2", "F8_E5M2", "[2]", "\x7b\x7c"},
                        {"f64", "F64", "[1]", bytes_of_values<double>({NAN})},
                        {"packed", "U8", "[2]", "\xff\x7f"}}));
  const auto source = SafetensorsSource::open(dir.path()).value();
  ThreadPool pool(2);
  std::string found;
  std::atomic<std::int64_t> bytes = 0;
  for (const NonFinite& bad :
       find_non_finite(*source, pool, [&](std::int64_t done) { bytes += done; })) {
    found += str(bad.tensor->name, ":", bad.count, "@", bad.first, " ");
  }
  EXPECT_EQ(found, "f32:2@1 bf16:1@1 f16:1@0 e4m3:2@1 e5m2:1@1 f64:1@0 ");
  EXPECT_EQ(bytes, 8 + 12 + 4 + 2 + 3 + 2 + 8);
}

TEST(Verify, counts_over_the_parts_of_a_large_tensor) {
  const TestDir dir;
  std::vector<std::uint16_t> values(10 << 20);
  values[(9 << 20) + 5] = 0x7fc0;
  values.back() = 0x7f80;
  dir.write("model.safetensors",
            safetensors_file({{"x", "BF16", "[10485760]", bytes_of_values(values)}}));
  const auto source = SafetensorsSource::open(dir.path()).value();
  ThreadPool pool(2);
  const auto found = find_non_finite(*source, pool, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_EQ(found[0].first, (9 << 20) + 5);
}

}  // namespace
}  // namespace glint
