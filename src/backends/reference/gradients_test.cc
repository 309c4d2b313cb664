// The reference's backward passes against finite differences of its forward ops: nothing else
// checks the oracle of the other backends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "backends/reference/reference_gradients.h"
#include "backends/reference/reference_ops.h"
#include "base/random.h"

namespace glint {
namespace {

constexpr float kStep = 0x1p-6f;

// A tensor and its gradient. In an op that works in place one tensor is input and output.
struct Value {
  Tensor x, d;
};

// An op with its arguments, and the memory of these.
class Probe {
 public:
  Value value(std::initializer_list<std::int64_t> dims) { return {take(dims), take(dims)}; }
  Value input(std::initializer_list<std::int64_t> dims) {
    inputs.push_back(value(dims));
    const Tensor& x = inputs.back().x;
    // Multiples of the step: what is added to them is added exactly.
    for (std::int64_t i = 0; i < x.size(); ++i)
      x.ptr<float>()[i] = std::round(noise() / kStep) * kStep;
    return inputs.back();
  }
  Value output(std::initializer_list<std::int64_t> dims) { return output(value(dims)); }
  Value output(const Value& updated) {
    outputs.push_back(updated);
    return updated;
  }
  Tensor ints(std::vector<std::int32_t> values, std::initializer_list<std::int64_t> dims) {
    ints_.push_back(std::move(values));
    return Tensor(ints_.back().data(), DType::kI32, dims);
  }
  // Floats that are neither: constants, and copies of what is overwritten.
  Tensor take(std::initializer_list<std::int64_t> dims) {
    std::int64_t size = 1;
    for (const std::int64_t dim : dims) size *= dim;
    floats_.emplace_back(static_cast<std::size_t>(size));
    return Tensor(floats_.back().data(), DType::kF32, dims);
  }
  float noise() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(random_.uniform());
    return sum - 6;
  }

  std::vector<Value> inputs, outputs;
  std::function<void()> forward, backward;
  ReferenceOps ops;
  ReferenceGradients gradients;

 private:
  Random random_{7};
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int32_t>> ints_;
};

std::vector<float> floats_in(const Tensor& x) {
  return {x.ptr<float>(), x.ptr<float>() + x.size()};
}
void put(const Tensor& x, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), x.ptr<float>());
}

bool is_one_of(const Value& value, const std::vector<Value>& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](const Value& other) { return other.d.data == value.d.data; });
}

// sum over outputs of dout . out, a function of the inputs whose gradient the backward pass gives:
// compared along random directions of each input by itself, in which the error of five points is
// of the fourth order.
void expect_gradients(Probe& p) {
  std::vector<std::vector<float>> before, at, douts;
  for (const Value& in : p.inputs) at.push_back(floats_in(in.x));
  for (const Value& in : p.inputs) {
    for (std::int64_t i = 0; i < in.d.size(); ++i) in.d.ptr<float>()[i] = p.noise();
    before.push_back(is_one_of(in, p.outputs) ? std::vector<float>(in.d.size()) : floats_in(in.d));
  }
  for (const Value& out : p.outputs) {
    for (std::int64_t i = 0; i < out.d.size(); ++i) out.d.ptr<float>()[i] = p.noise();
    douts.push_back(floats_in(out.d));
  }
  p.forward();
  p.backward();
  for (const Value& out : p.outputs) {
    if (is_one_of(out, p.inputs)) continue;
    for (const float d : floats_in(out.d)) EXPECT_EQ(d, 0) << "dout is not zeroed";
  }
  std::vector<std::vector<float>> gradients;
  for (const Value& in : p.inputs) gradients.push_back(floats_in(in.d));

  const auto loss_at = [&](std::size_t input, const std::vector<float>& direction, float step) {
    for (std::size_t i = 0; i < at.size(); ++i) put(p.inputs[i].x, at[i]);
    float* const x = p.inputs[input].x.ptr<float>();
    for (std::size_t i = 0; i < direction.size(); ++i) x[i] += step * direction[i];
    p.forward();
    double loss = 0;
    for (std::size_t o = 0; o < douts.size(); ++o) {
      const std::vector<float> out = floats_in(p.outputs[o].x);
      for (std::size_t i = 0; i < out.size(); ++i) loss += double{douts[o][i]} * out[i];
    }
    return loss;
  };
  Random random(11);
  for (std::size_t in = 0; in < at.size(); ++in) {
    double norm = 0;
    for (std::size_t i = 0; i < at[in].size(); ++i) {
      norm += std::pow(double{gradients[in][i]} - before[in][i], 2);
    }
    for (int trial = 0; trial < 3; ++trial) {
      std::vector<float> direction;
      double expected = 0;
      for (std::size_t i = 0; i < at[in].size(); ++i) {
        direction.push_back(static_cast<float>(static_cast<int>(random.below(3)) - 1));
        expected += (double{gradients[in][i]} - before[in][i]) * direction[i];
      }
      const double near = loss_at(in, direction, kStep) - loss_at(in, direction, -kStep);
      const double far = loss_at(in, direction, 2 * kStep) - loss_at(in, direction, -2 * kStep);
      EXPECT_NEAR(expected, (8 * near - far) / (12 * kStep), 1e-4 * std::sqrt(norm))
          << "input " << in << ", whose gradient has norm " << std::sqrt(norm);
    }
  }
}

Weight weight_of(const Tensor& x) {
  return {.format = WeightFormat::kF32, .rows = x.dim(0), .cols = x.dim(1), .data = x};
}
WeightStack stack_of(const Tensor& x) {
  return {.format = WeightFormat::kF32,
          .count = x.dim(0),
          .rows = x.dim(1),
          .cols = x.dim(2),
          .data = x};
}

TEST(ReferenceGradients, embed) {
  Probe p;
  const Value table = p.input({4, 5}), out = p.output({6, 5});
  const EmbedArgs op = {.ids = p.ints({1, 3, -1, 1, 0, 1}, {6}), .table = table.x, .out = out.x};
  p.forward = [&] { p.ops.embed(op); };
  p.backward = [&] { p.gradients.embed_back({.op = op, .dout = out.d, .dtable = table.d}); };
  expect_gradients(p);
}

TEST(ReferenceGradients, gather_rows) {
  Probe p;
  const Value x = p.input({4, 5}), out = p.output({5, 5});
  const GatherRowsArgs op = {.x = x.x, .rows = p.ints({2, 2, -1, 0, 3}, {5}), .out = out.x};
  p.forward = [&] { p.ops.gather_rows(op); };
  p.backward = [&] { p.gradients.gather_rows_back({.op = op, .dout = out.d, .dx = x.d}); };
  expect_gradients(p);
}

TEST(ReferenceGradients, add) {
  Probe p;
  const Value x = p.output(p.input({3, 5})), y = p.input({3, 5});
  const AddArgs op = {.x = x.x, .y = y.x};
  p.forward = [&] { p.ops.add(op); };
  p.backward = [&] { p.gradients.add_back({.op = op, .dx = x.d, .dy = y.d}); };
  expect_gradients(p);
}

TEST(ReferenceGradients, silu_mul) {
  for (const bool in_place : {false, true}) {
    Probe p;
    const Value gate = p.input({3, 9}), up = p.input({3, 9});
    const Value out = in_place ? p.output(gate) : p.output({3, 9});
    const Tensor seen = p.take({3, 9});
    p.forward = [&] {
      put(seen, floats_in(gate.x));
      p.ops.silu_mul({.gate = gate.x, .up = up.x, .out = out.x});
    };
    p.backward = [&] {
      p.gradients.silu_mul_back({.op = {.gate = seen, .up = up.x, .out = out.x},
                                 .dout = out.d,
                                 .dgate = gate.d,
                                 .dup = up.d});
    };
    expect_gradients(p);
  }
}

TEST(ReferenceGradients, rope) {
  for (const bool interleaved : {false, true}) {
    Probe p;
    const Value x = p.output(p.input({4, 2, 6}));
    const Tensor table = p.take({8, 6});
    for (std::int64_t i = 0; i < 24; ++i) {
      const double angle = 0.3 * static_cast<double>(i / 3) * static_cast<double>(i % 3 + 1);
      table.row<float>(i / 3)[i % 3] = static_cast<float>(std::cos(angle));
      table.row<float>(i / 3)[i % 3 + 3] = static_cast<float>(std::sin(angle));
    }
    const RopeArgs op = {.x = x.x,
                         .positions = p.ints({0, 5, -1, 7}, {4}),
                         .table = table,
                         .interleaved = interleaved};
    p.forward = [&] { p.ops.rope(op); };
    p.backward = [&] { p.gradients.rope_back({.op = op, .dx = x.d}); };
    expect_gradients(p);
  }
}

TEST(ReferenceGradients, rms_norm) {
  Probe p;
  const Value x = p.input({3, 7}), weight = p.input({7}), out = p.output({3, 7});
  const RmsNormArgs op = {.x = x.x, .weight = weight.x, .eps = 0.1f, .out = out.x};
  p.forward = [&] { p.ops.rms_norm(op); };
  p.backward = [&] {
    p.gradients.rms_norm_back({.op = op, .dout = out.d, .dx = x.d, .dweight = weight.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, rms_norm_that_adds) {
  Probe p;
  const Value x = p.output(p.input({3, 7})), delta = p.input({3, 7}), weight = p.input({7});
  const Value out = p.output({3, 7});
  const RmsNormArgs op = {.x = x.x, .delta = delta.x, .weight = weight.x, .out = out.x};
  p.forward = [&] { p.ops.rms_norm(op); };
  p.backward = [&] {
    p.gradients.rms_norm_back(
        {.op = op, .dout = out.d, .dx = x.d, .ddelta = delta.d, .dweight = weight.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, rms_norm_in_place) {
  Probe p;
  const Value x = p.output(p.input({3, 7})), weight = p.input({7});
  const Tensor seen = p.take({3, 7});
  p.forward = [&] {
    put(seen, floats_in(x.x));
    p.ops.rms_norm({.x = x.x, .weight = weight.x, .out = x.x});
  };
  p.backward = [&] {
    p.gradients.rms_norm_back({.op = {.x = seen, .weight = weight.x, .out = x.x},
                               .dout = x.d,
                               .dx = x.d,
                               .dweight = weight.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, linear) {
  Probe p;
  const Value x = p.input({4, 5}), weight = p.input({3, 5}), out = p.output({4, 3});
  const LinearArgs op = {.x = x.x, .weight = weight_of(weight.x), .out = out.x};
  p.forward = [&] { p.ops.linear(op); };
  p.backward = [&] {
    p.gradients.linear_back({.op = op, .dout = out.d, .dx = x.d, .dweight = weight.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, grouped_linear) {
  Probe p;
  const Value x = p.input({3, 5}), weights = p.input({3, 2, 5}), out = p.output({5, 2});
  const GroupedLinearArgs op = {.x = x.x,
                                .rows = p.ints({2, 0, 2, 1, 2}, {5}),
                                .offsets = p.ints({0, 2, 2, 5}, {4}),
                                .weights = stack_of(weights.x),
                                .out = out.x};
  p.forward = [&] { p.ops.grouped_linear(op); };
  p.backward = [&] {
    p.gradients.grouped_linear_back({.op = op, .dout = out.d, .dx = x.d, .dweights = weights.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, grouped_linear_of_rows_in_order) {
  Probe p;
  const Value x = p.input({4, 5}), weights = p.input({2, 2, 5}), out = p.output({4, 2});
  const GroupedLinearArgs op = {
      .x = x.x, .offsets = p.ints({0, 3, 4}, {3}), .weights = stack_of(weights.x), .out = out.x};
  p.forward = [&] { p.ops.grouped_linear(op); };
  p.backward = [&] {
    p.gradients.grouped_linear_back({.op = op, .dout = out.d, .dx = x.d, .dweights = weights.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, per_head) {
  Probe p;
  const Value x = p.input({3, 2, 4}), weights = p.input({2, 5, 4}), out = p.output({3, 2, 5});
  const PerHeadArgs op = {.x = x.x, .weights = stack_of(weights.x), .out = out.x};
  p.forward = [&] { p.ops.per_head(op); };
  p.backward = [&] {
    p.gradients.per_head_back({.op = op, .dout = out.d, .dx = x.d, .dweights = weights.d});
  };
  expect_gradients(p);
}

// From the latents through the cache: of what a token attends to, one key is another's too, and one
// row of the cache is older than these tokens.
TEST(ReferenceGradients, write_latent_and_sparse_mla) {
  Probe p;
  const Value latent = p.input({3, 6}), k_rope = p.input({3, 4});
  const Value q_latent = p.input({4, 2, 6}), q_rope = p.input({4, 2, 4});
  const Value out = p.output({4, 2, 6});
  const Value rows = p.value({kPageSize, 10});
  for (std::int64_t i = 0; i < 10; ++i) rows.x.row<float>(9)[i] = p.noise();
  const LatentCache cache = {rows.x.data, LatentFormat::kF32, kPageSize, 6, 4};
  const WriteLatentArgs write = {
      .latent = latent.x, .k_rope = k_rope.x, .slots = p.ints({5, -1, 2}, {3}), .cache = cache};
  const SparseMlaArgs attend = {
      .q_latent = q_latent.x,
      .q_rope = q_rope.x,
      .kv = cache,
      .indices = p.ints({5, -1, -1, 2, 5, 9, -1, -1, -1, 9, 2, -1}, {4, 3}),
      .softmax_scale = 0.4f,
      .out = out.x,
      .lse = p.take({4, 2})};
  p.forward = [&] {
    p.ops.write_latent(write);
    p.ops.sparse_mla(attend);
  };
  p.backward = [&] {
    p.gradients.sparse_mla_back({.op = attend,
                                 .dout = out.d,
                                 .dq_latent = q_latent.d,
                                 .dq_rope = q_rope.d,
                                 .dcache = rows.d});
    p.gradients.write_latent_back(
        {.op = write, .dcache = rows.d, .dlatent = latent.d, .dk_rope = k_rope.d});
  };
  expect_gradients(p);
  for (const std::int64_t slot : {2, 5}) {
    for (int d = 0; d < 10; ++d) EXPECT_EQ(rows.d.row<float>(slot)[d], 0);
  }
}

TEST(ReferenceGradients, route) {
  for (const bool normed : {true, false}) {
    Probe p;
    const Value logits = p.input({3, 6}), weights = p.output({3, 2});
    const RouteArgs op = {.logits = logits.x,
                          .bias = p.take({6}),
                          .positions = p.ints({0, -1, 1}, {3}),
                          .norm_topk_prob = normed,
                          .routed_scaling_factor = 2.5f,
                          .ids = p.ints({4, 1, -1, -1, 0, 5}, {3, 2}),
                          .given = true,
                          .weights = weights.x};
    p.forward = [&] { p.ops.route(op); };
    p.backward = [&] {
      p.gradients.route_back({.op = op, .dweights = weights.d, .dlogits = logits.d});
    };
    expect_gradients(p);
  }
}

TEST(ReferenceGradients, combine) {
  Probe p;
  const Value y = p.input({6, 5}), weights = p.input({3, 2}), shared = p.input({3, 5});
  const Value out = p.output({3, 5});
  const CombineArgs op = {.y = y.x,
                          .places = p.ints({3, 0, 2, 5, -1, -1}, {3, 2}),
                          .weights = weights.x,
                          .shared = shared.x,
                          .out = out.x};
  p.forward = [&] { p.ops.combine(op); };
  p.backward = [&] {
    p.gradients.combine_back(
        {.op = op, .dout = out.d, .dy = y.d, .dweights = weights.d, .dshared = shared.d});
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, cross_entropy) {
  Probe p;
  const Value logits = p.input({4, 6}), log_probs = p.output({4}), entropies = p.output({4});
  const Tensor swept = p.take({4, 6}), scales = p.take({4}), entropy_scales = p.take({4});
  const Tensor targets = p.ints({5, 0, -1, 3}, {4}), again = p.take({4});
  p.forward = [&] {
    p.gradients.log_probs({.logits = logits.x,
                           .targets = targets,
                           .temperature = 0.7f,
                           .log_probs = log_probs.x,
                           .entropies = entropies.x});
  };
  p.backward = [&] {
    for (int r = 0; r < 4; ++r) {
      scales.ptr<float>()[r] = -std::exchange(log_probs.d.ptr<float>()[r], 0.0f);
      entropy_scales.ptr<float>()[r] = -std::exchange(entropies.d.ptr<float>()[r], 0.0f);
    }
    put(swept, floats_in(logits.x));
    p.gradients.cross_entropy({.logits = swept,
                               .targets = targets,
                               .scales = scales,
                               .entropy_scales = entropy_scales,
                               .temperature = 0.7f,
                               .log_probs = again});
    EXPECT_EQ(floats_in(again), floats_in(log_probs.x));
    for (int i = 0; i < 24; ++i) logits.d.ptr<float>()[i] += swept.ptr<float>()[i];
  };
  expect_gradients(p);
}

TEST(ReferenceGradients, entropies_are_those_of_the_softmax) {
  std::vector<float> logits = {0, 0, 0, 0, 3, 3, -200, 3};
  std::vector<std::int32_t> targets = {2, 0};
  std::vector<float> log_probs(2), entropies(2);
  ReferenceGradients().log_probs({.logits = Tensor(logits.data(), DType::kF32, {2, 4}),
                                  .targets = Tensor(targets.data(), DType::kI32, {2}),
                                  .log_probs = Tensor(log_probs.data(), DType::kF32, {2}),
                                  .entropies = Tensor(entropies.data(), DType::kF32, {2})});
  EXPECT_FLOAT_EQ(entropies[0], std::log(4.0f));
  EXPECT_FLOAT_EQ(entropies[1], std::log(3.0f));
  EXPECT_FLOAT_EQ(log_probs[0], -std::log(4.0f));
  EXPECT_FLOAT_EQ(log_probs[1], -std::log(3.0f));
}

// The small rest of a likely token, which f32 sums of exponentials would lose.
TEST(ReferenceGradients, cross_entropy_keeps_the_digits_of_likely_tokens) {
  std::vector<float> logits = {20, 0, 0};
  std::int32_t target = 0;
  float scale = 1, log_prob = 0;
  ReferenceGradients().cross_entropy({.logits = Tensor(logits.data(), DType::kF32, {1, 3}),
                                      .targets = Tensor(&target, DType::kI32, {1}),
                                      .scales = Tensor(&scale, DType::kF32, {1}),
                                      .log_probs = Tensor(&log_prob, DType::kF32, {1})});
  const double rest = 2 * std::exp(-20.0);
  EXPECT_NEAR(log_prob / -std::log1p(rest), 1, 1e-6);
  EXPECT_NEAR(logits[0] / (-rest / (1 + rest)), 1, 1e-6);
}

TEST(ReferenceGradientsDeath, shapes_are_checked) {
  Probe p;
  const Value x = p.input({4, 5}), weight = p.input({3, 5}), out = p.output({4, 3});
  const LinearArgs op = {.x = x.x, .weight = weight_of(weight.x), .out = out.x};
  EXPECT_DEATH(p.gradients.linear_back({.op = op, .dout = x.d, .dx = x.d}),
               "linear_back: dout is F32 \\[4, 5\\], but belongs to F32 \\[4, 3\\]");
  EXPECT_DEATH(p.gradients.linear_back({.op = op, .dout = out.d, .dweight = x.d}),
               "linear_back: dweight is F32 \\[4, 5\\], but belongs to F32 \\[3, 5\\]");
}

}  // namespace
}  // namespace glint
