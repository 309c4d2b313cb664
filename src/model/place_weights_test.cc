#include "model/place_weights.h"

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "model/synthetic.h"
#include "ops/testing/unsupported_ops.h"
#include "tensor/testing/late_device.h"

namespace glint {
namespace {

// Runs nothing, but weights can be placed on it.
class FarOps final : public UnsupportedOps {
 public:
  LateDevice& device() override { return device_; }
  Capabilities capabilities() const override { return {.backend = "far"}; }
  // A copy of `x`, or of the weight's three parts, that the host can read.
  Tensor near(Tensor x) {
    if (!x) return x;
    const std::size_t bytes = x.bytes().size();
    near_.push_back(std::make_unique<std::byte[]>(bytes));
    device_.copy_out(near_.back().get(), x.data, bytes);
    x.data = near_.back().get();
    return x;
  }
  Weight near(Weight weight) {
    for (Tensor* x : {&weight.data, &weight.scale, &weight.global_scale}) *x = near(*x);
    return weight;
  }

 private:
  LateDevice device_;
  std::vector<std::unique_ptr<std::byte[]>> near_;
};

class PlaceWeights : public testing::TestWithParam<Release> {
 protected:
  // Weights of the same model, made with `seed`, and the checkpoint they refer to.
  struct Found {
    std::unique_ptr<Checkpoint> checkpoint;
    ModelWeights weights;
  };
  Found find(std::uint64_t seed) {
    const SyntheticModel model = SyntheticModel::plan(config_, GetParam(), seed).value();
    auto checkpoint = std::make_unique<Checkpoint>(
        make_dummy_checkpoint(model, pool_, [](std::int64_t) { return true; }).value());
    ModelWeights weights = find_weights(*checkpoint, config_, {}, pool_).value();
    return {std::move(checkpoint), std::move(weights)};
  }

  // Every matrix and every vector of `placed` has the numbers of `found`.
  void expect_equal(ModelWeights& placed, ModelWeights& found) {
    std::vector<Weight> expected;
    visit_matrices(found, [&](const ModelTensor&, const Weight& w) { expected.push_back(w); });
    std::size_t next = 0;
    visit_matrices(placed, [&](const ModelTensor& tensor, const Weight& far) {
      const Weight& from = expected[next++];
      const Weight weight = ops_.near(far);
      ASSERT_EQ(weight.rows, from.rows);
      EXPECT_EQ(weight.id, from.id);
      std::vector<float> row(static_cast<std::size_t>(from.cols)), want(row.size());
      for (const std::int64_t n : {std::int64_t{0}, from.rows / 2, from.rows - 1}) {
        dequantize_row(weight, n, row.data());
        dequantize_row(from, n, want.data());
        EXPECT_EQ(row, want) << tensor.name << " row " << n;
      }
    });
    EXPECT_EQ(next, expected.size());
    const Tensor norm = ops_.near(placed.norm);
    EXPECT_TRUE(std::ranges::equal(norm.bytes(), found.norm.bytes()));
    const Tensor bias = ops_.near(placed.layers[1].moe.e_score_correction_bias);
    EXPECT_TRUE(
        std::ranges::equal(bias.bytes(), found.layers[1].moe.e_score_correction_bias.bytes()));
  }

  static void expect_kept(const Checkpoint& checkpoint, const Checkpoint& as_made) {
    const auto kept = checkpoint.source().tensors(), made = as_made.source().tensors();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(kept[i].bytes, made[i].bytes)) << kept[i].name;
    }
  }

  ThreadPool pool_{2};
  const ModelConfig config_ = read_config(GLINT_SOURCE_DIR "/models/glm5-tiny/config.json").value();
  FarOps ops_;
};

TEST_P(PlaceWeights, arrive_on_a_device_that_the_host_cannot_read) {
  Found found = find(1), twin = find(1), next = find(2), next_twin = find(2);
  std::int64_t done = 0;
  const Placement placement =
      place_weights(found.weights, {.packing = Packing::kNever}, ops_, pool_,
                    [&](std::int64_t bytes, std::int64_t) { done += bytes; })
          .value();
  EXPECT_TRUE(placement.is_packed);
  EXPECT_GT(done, 0);
  expect_equal(found.weights, twin.weights);
  const MoeWeights& moe = found.weights.layers[1].moe;
  EXPECT_TRUE(moe.gate_proj.each.empty()) << "experts on a device have one stride";

  const std::byte* const before = found.weights.layers[0].attention.o_proj.data.data;
  ASSERT_TRUE(replace_weights(found.weights, std::move(next.weights), placement, Sources::kKeep,
                              ops_, pool_)
                  .ok());
  expect_kept(*next.checkpoint, *next_twin.checkpoint);
  EXPECT_EQ(found.weights.layers[0].attention.o_proj.data.data, before);
  expect_equal(found.weights, next_twin.weights);
}

// A trainer's weights, which it goes on to write.
TEST_P(PlaceWeights, leave_sources_that_are_kept) {
  Found found = find(1), twin = find(1);
  ASSERT_TRUE(place_weights(found.weights, {.sources = Sources::kKeep}, ops_, pool_, {}).ok());
  expect_kept(*found.checkpoint, *twin.checkpoint);
}

INSTANTIATE_TEST_SUITE_P(Releases, PlaceWeights,
                         testing::Values(Release::kBF16, Release::kFp8, Release::kNvfp4),
                         [](const auto& release) { return std::string(name_of(release.param)); });

}  // namespace
}  // namespace glint
