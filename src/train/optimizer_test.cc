#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

// Worked by hand: after the first step both moments are corrected to g and g^2, so that a weight
// moves by lr * g / (|g| + eps), whatever g is, after it has shrunk by lr * weight_decay.
TEST(AdamW, the_first_step_moves_by_the_learning_rate) {
  ThreadPool pool(1);
  const std::vector<float> g = {0.5f, -4, 0};
  std::vector<float> w = {1, 2, 3}, m(3), v(3);
  adamw({.lr = 0.1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.1}, g, w, m, v,
        pool);
  EXPECT_FLOAT_EQ(w[0], 0.99f - 0.1f);
  EXPECT_FLOAT_EQ(w[1], 1.98f + 0.1f);
  EXPECT_FLOAT_EQ(w[2], 2.97f);  // decays without a gradient
  EXPECT_FLOAT_EQ(m[0], 0.05f);
  EXPECT_FLOAT_EQ(m[1], -0.4f);
  EXPECT_FLOAT_EQ(v[0], 0.005f);
  EXPECT_FLOAT_EQ(v[1], 0.32f);
}

// g = 1 and then 0: m = .09, v = .0196, corrected by 1 - .81 and 1 - .9604. The weight moves by
// lr * (.09 / .19) / sqrt(.0196 / .0396).
TEST(AdamW, the_second_step_corrects_both_moments) {
  ThreadPool pool(1);
  std::vector<float> w = {0}, m = {0.1f}, v = {0.02f};
  adamw({.lr = 0.01, .beta1 = 0.9, .beta2 = 0.98, .step = 2}, std::vector<float>{0}, w, m, v, pool);
  EXPECT_FLOAT_EQ(m[0], 0.09f);
  EXPECT_FLOAT_EQ(v[0], 0.0196f);
  EXPECT_NEAR(w[0], -0.01 * (0.09 / 0.19) / std::sqrt(0.0196 / 0.0396), 1e-9);
}

TEST(AdamW, clipping_scales_the_gradient) {
  ThreadPool pool(1);
  const std::vector<float> g = {3, 4};
  EXPECT_EQ(norm_of_squares(squares_of(g, pool)), 5);
  EXPECT_NEAR(clip_scale(5, 1), 0.2, 1e-6);
  EXPECT_EQ(clip_scale(0.5, 1), 1);
  EXPECT_EQ(clip_scale(5, 0), 1);
  std::vector<float> w(2), m(2), v(2);
  adamw({.lr = 1, .beta1 = 0.5, .beta2 = 0.5, .gradient_scale = 0.2}, g, w, m, v, pool);
  EXPECT_FLOAT_EQ(m[0], 0.3f);
  EXPECT_FLOAT_EQ(v[1], 0.32f);
}

TEST(AdamW, bits_do_not_depend_on_threads) {
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    Random random(7);
    std::vector<float> g(100'001), w(g.size()), m(g.size()), v(g.size());
    for (auto* values : {&g, &w}) {
      for (float& x : *values) x = static_cast<float>(random.normal());
    }
    const double norm = norm_of_squares(squares_of(g, pool));
    adamw({.lr = 0.1, .beta1 = 0.9, .beta2 = 0.98, .gradient_scale = clip_scale(norm, 1)}, g, w, m,
          v, pool);
    w.push_back(static_cast<float>(norm));
    results.push_back(w);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(LearningRate, rises_and_falls) {
  const LearningRate constant = {.peak = 1, .warmup = 4, .total = 12};
  EXPECT_DOUBLE_EQ(constant.at(1), 0);
  EXPECT_DOUBLE_EQ(constant.at(4), 0.75);
  EXPECT_DOUBLE_EQ(constant.at(5), 1);
  EXPECT_DOUBLE_EQ(constant.at(12), 1);
  const LearningRate linear = {
      .peak = 1, .least = 0.2, .warmup = 4, .total = 12, .decay = Decay::kLinear};
  EXPECT_DOUBLE_EQ(linear.at(5), 1);
  EXPECT_DOUBLE_EQ(linear.at(9), 0.6);
  EXPECT_DOUBLE_EQ(linear.at(12), 0.3);
  EXPECT_DOUBLE_EQ(linear.at(13), 0.2);
  EXPECT_DOUBLE_EQ(linear.at(100), 0.2);
  const LearningRate cosine = {
      .peak = 1, .least = 0.2, .warmup = 4, .total = 12, .decay = Decay::kCosine};
  EXPECT_DOUBLE_EQ(cosine.at(5), 1);
  EXPECT_DOUBLE_EQ(cosine.at(7), 0.2 + 0.8 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(cosine.at(9), 0.6);
  EXPECT_NEAR(cosine.at(13), 0.2, 1e-15);
  EXPECT_DOUBLE_EQ((LearningRate{.peak = 3, .decay = Decay::kLinear}).at(1), 3) << "an only step";
  EXPECT_DOUBLE_EQ((LearningRate{.peak = 3}).at(1), 3);
}

}  // namespace
}  // namespace glint
