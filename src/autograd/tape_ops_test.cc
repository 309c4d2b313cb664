// The tape against finite differences of what it recorded.
#include "autograd/tape_ops.h"

#include <gtest/gtest.h>

#include "backends/reference/reference_ops.h"
#include "base/random.h"
#include "ops/compose.h"

namespace glint {
namespace {

class TapeTest : public testing::Test {
 protected:
  Tensor random(std::initializer_list<std::int64_t> dims) {
    Tensor x(nullptr, DType::kF32, dims);
    x.data = owned_.emplace_back(device_->allocate(static_cast<std::size_t>(x.size()) * 4)).data();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      x.ptr<float>()[i] = static_cast<float>(random_.uniform() - 0.5);
    }
    return x;
  }
  Tensor zeros_like(const Tensor& x) {
    Tensor zeros = x;
    zeros.data = owned_.emplace_back(zeroed_memory(*device_, x.bytes().size())).data();
    return zeros;
  }
  Weight weight(std::int64_t rows, std::int64_t cols) {
    return {.format = WeightFormat::kF32,
            .rows = rows,
            .cols = cols,
            .data = random({rows, cols}),
            .id = next_id_++};
  }
  // A norm or an embedding.
  Tensor table(std::initializer_list<std::int64_t> dims) {
    Tensor x = random(dims);
    x.id = next_id_++;
    return x;
  }

  const std::unique_ptr<Device> device_ = make_host_device();
  Random random_{3};
  int next_id_ = 0;
  std::vector<Buffer> owned_;
  DecoratedBackend backend_{std::make_unique<ReferenceOps>()};
  TapeOps& tape_ = TapeOps::decorate(backend_);
  Arena arena_{*device_};
  Shadow shadow_{arena_};
};

// Two feed-forward layers: the stream is updated in place twice, gates are overwritten, and the
// memory of delta is used by both.
TEST_F(TapeTest, values_that_are_overwritten_are_kept) {
  constexpr std::int64_t T = 3, D = 6, I = 5;
  const Tensor first = table({T, D}), second = table({T, D});  // of x and delta
  const Tensor norms[] = {table({D}), table({D})};
  std::vector<std::int32_t> rows = {0, 1, 2};
  const Tensor ids(rows.data(), DType::kI32, {T});
  FfnWeights layers[2];
  for (FfnWeights& layer : layers) layer = {weight(I, D), weight(I, D), weight(D, I)};
  const Tensor pull = random({T, D});  // loss = sum of pull * x

  const Tensor x = arena_.take(DType::kF32, {T, D}), delta = arena_.take(DType::kF32, {T, D});
  const auto run = [&] {
    tape_.embed({.ids = ids, .table = first, .out = x});
    tape_.embed({.ids = ids, .table = second, .out = delta});
    for (int i = 0; i < 2; ++i) {
      tape_.dense_ffn(
          {.weights = layers[i], .norm = norms[i], .eps = 0.01f, .x = x, .delta = delta}, arena_);
    }
    tape_.add({.x = x, .y = delta});
  };
  const auto loss = [&] {
    run();
    double sum = 0;
    for (std::int64_t i = 0; i < T * D; ++i) {
      sum += double{pull.ptr<float>()[i]} * x.ptr<float>()[i];
    }
    return sum;
  };

  std::vector<std::pair<Tensor, Tensor>> trained;
  for (const FfnWeights& layer : layers) {
    for (const Weight& w : {layer.gate_proj, layer.up_proj, layer.down_proj}) {
      trained.emplace_back(w.data, zeros_like(w.data));
      tape_.train(w, trained.back().second);
    }
  }
  for (const Tensor& x : {norms[0], norms[1], first, second}) {
    trained.emplace_back(x, zeros_like(x));
    tape_.train(x, trained.back().second);
  }
  {
    const Arena::Retain retain(arena_);
    tape_.record(arena_, shadow_, run);
    device_->copy(shadow_.add_to(x).data, pull.data, pull.bytes().size());
    tape_.backward();
    EXPECT_EQ(tape_.find_remains({}), "");
  }
  constexpr float kStep = 0x1p-6f;
  for (const auto& parameter : trained) {
    const Tensor value = parameter.first, gradient = parameter.second;
    double expected = 0;
    std::vector<float> before(value.ptr<float>(), value.ptr<float>() + value.size()), direction;
    for (std::int64_t i = 0; i < value.size(); ++i) {
      direction.push_back(static_cast<float>(random_.uniform() - 0.5));
      expected += double{direction.back()} * gradient.ptr<float>()[i];
    }
    const auto at = [&](float step) {
      for (std::size_t i = 0; i < before.size(); ++i) {
        value.ptr<float>()[i] = before[i] + step * direction[i];
      }
      return loss();
    };
    const double found = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / 12;
    at(0);
    EXPECT_NEAR(found / kStep, expected, 2e-5) << "of " << value.describe();
  }
}

// As the latent and the rotated key of a token, which lie in one row.
TEST_F(TapeTest, columns_that_others_lie_between_are_kept_where_they_are) {
  const Tensor rows = arena_.take(DType::kF32, {3, 8});
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    rows.ptr<float>()[i] = static_cast<float>(random_.uniform());
  }
  const Tensor norm = random({4}), out = arena_.take(DType::kF32, {3, 4});
  const auto copied_bytes = [&](const Tensor& written) {
    const Arena::Retain retain(arena_);
    const std::size_t before = arena_.mark().taken;
    tape_.record(arena_, shadow_, [&] {
      tape_.rms_norm({.x = rows.first(4), .weight = norm, .out = out});
      tape_.rms_norm({.x = out, .weight = norm, .out = written});
    });
    tape_.forget();
    return arena_.mark().taken - before;
  };
  EXPECT_EQ(copied_bytes(rows.last(4)), 0);
  EXPECT_GT(copied_bytes(rows.slice(1, 3, 4)), 0);
  EXPECT_GT(copied_bytes(rows.first(4)), 0);
}

TEST_F(TapeTest, what_nothing_flows_into_is_skipped) {
  const Tensor x = arena_.take(DType::kF32, {2, 3}), out = arena_.take(DType::kF32, {2, 4});
  const Tensor other = arena_.take(DType::kF32, {2, 4});
  const Weight w = weight(4, 3), unused = weight(4, 3);
  const Tensor dw = zeros_like(w.data), dunused = zeros_like(unused.data);
  tape_.train(w, dw);
  tape_.train(unused, dunused);
  for (std::int64_t i = 0; i < x.size(); ++i) x.ptr<float>()[i] = 1;
  const Arena::Retain retain(arena_);
  tape_.record(arena_, shadow_, [&] {
    tape_.linear({.x = x, .weight = w, .out = out});
    tape_.linear({.x = x, .weight = unused, .out = other});
  });
  std::fill_n(shadow_.add_to(out).ptr<float>(), out.size(), 1.0f);
  // Garbage in a gradient that nothing flowed into must not be looked at.
  shadow_.of(other).ptr<float>()[0] = 100;
  tape_.backward();
  EXPECT_EQ(dw.ptr<float>()[0], 2);
  EXPECT_EQ(dunused.ptr<float>()[0], 0);
}

TEST_F(TapeTest, a_frozen_weight_passes_gradients_on) {
  const Tensor x = arena_.take(DType::kF32, {1, 3}), out = arena_.take(DType::kF32, {1, 2});
  const Weight w = weight(2, 3);
  const Arena::Retain retain(arena_);
  tape_.record(arena_, shadow_, [&] { tape_.linear({.x = x, .weight = w, .out = out}); });
  shadow_.add_to(out).ptr<float>()[1] = 2;
  tape_.backward();
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(shadow_.of(x).ptr<float>()[k], 2 * w.data.row<float>(1)[k]);
  }
}

}  // namespace
}  // namespace glint
