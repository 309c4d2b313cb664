#include "runtime/serve_memory.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "ops/testing/unsupported_ops.h"

namespace glint {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// 1,000 MiB, of which 900 are free; weights and steps take 100 and 50; a page takes one.
ServeMemory memory_of(bool on_host) {
  return {.page = kMiB,
          .weights = 100 * kMiB,
          .working = 50 * kMiB,
          .total = 1000 * kMiB,
          .available = 900 * kMiB,
          .on_host = on_host,
          .host_available = 900 * kMiB};
}

int pages_for(CacheWishes wishes, bool on_host = true) {
  wishes.max_running = 1000;
  wishes.max_model_len = 64 * 10;
  const Result<CachePlan> plan = plan_cache(wishes, memory_of(on_host));
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.value().pages;
}

TEST(CachePlan, each_wish_has_its_servers_meaning) {
  EXPECT_EQ(pages_for({}), 375);
  EXPECT_EQ(pages_for({}, false), 750);
  EXPECT_EQ(pages_for({.share = 0.5}), 350);
  EXPECT_EQ(pages_for({.share_with_weights = 0.5}, false), 400);
  EXPECT_EQ(pages_for({.share_of_free = 0.2}, false), 150);
  EXPECT_EQ(pages_for({.bytes = 77 * kMiB, .share = 0.5}), 77);
  EXPECT_EQ(pages_for({.tokens = 641, .bytes = 77 * kMiB}), 11);
}

TEST(CachePlan, takes_no_more_than_can_be_used_and_than_there_is) {
  CacheWishes wishes = {.max_running = 2, .max_model_len = 64 * 10};
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).value().pages, 22);
  wishes.bytes = 1000 * kMiB;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "a KV cache of 1000 MiB does not fit: 900 MiB are free; ask for less");
  wishes = {.bytes = 3 * kMiB, .max_model_len = 64 * 10};
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "the KV cache would hold 192 tokens, fewer than the context of 640; give it more "
            "memory, or a smaller --max-model-len");
  wishes.may_shorten = true;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).value().max_model_len, 192);
  wishes.bytes = kMiB / 2;
  EXPECT_EQ(plan_cache(wishes, memory_of(true)).error().message,
            "a KV cache of 512 KiB holds no page of 64 tokens; give it 1 MiB (1,048,576 bytes) or "
            "more");
}

TEST(CachePlan, of_weights_that_leave_no_page_it_says_so) {
  ServeMemory memory = memory_of(true);
  memory.weights = 2048 * kMiB;
  EXPECT_EQ(plan_cache({}, memory).error().message,
            "weights and steps of 2.049 GiB do not fit: 900 MiB are free; weights that stay in the "
            "files of a checkpoint (--pack auto) take none, and a smaller "
            "--max-num-batched-tokens takes less");
}

class HostOps : public UnsupportedOps {
 public:
  Device& device() override { return *device_; }
  Capabilities capabilities() const override { return {}; }

 private:
  const std::unique_ptr<Device> device_ = make_host_device();
};

// A machine that has one of two stages has the larger one's layers, for all that it knows.
TEST(ServeMemory, stages_share_a_host_only_where_all_are_on_it) {
  const ModelConfig config =
      read_config(str(GLINT_SOURCE_DIR, "/tests/data/configs/glm5.json")).value();
  HostOps ops;
  ServeMemoryArgs args = {
      .trial = {.shape = {.pp = 2, .last_stage_layers = 18},
                .format = [](const ModelTensor&) { return WeightFormat::kBF16; },
                .like = &ops},
      .ranks_here = 2,
      .limits = {.max_step_tokens = 64, .max_running = 2, .max_seq_len = 4096},
      .packing = Packing::kAlways};
  const ServeMemory both = plan_serve_memory(config, args).value();
  args.ranks_here = 1;
  const ServeMemory one = plan_serve_memory(config, args).value();
  EXPECT_EQ(one.page * 78, both.page * 60);
  EXPECT_GT(one.weights, both.weights / 2);
}

}  // namespace
}  // namespace glint
