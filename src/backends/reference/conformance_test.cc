// Conformance must pass the reference and find every kind of mistake that a backend can make.
#include "ops/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/reference/reference_ops.h"
#include "base/thread_pool.h"
#include "ops/capabilities.h"

namespace glint {
namespace {

using conformance::CaseResult;

// One of the cases of `op` whose names contain `name` fails with `failure`.
void expect_found(Backend& backend, const std::string& op, const std::string& name,
                  const std::string& failure) {
  ReferenceOps reference;
  std::vector<std::string> all;
  conformance::run_conformance(backend, reference, {.op = op, .name = name},
                               [&](const CaseResult& result) {
                                 if (!result.failure.empty()) all.push_back(result.failure);
                               });
  EXPECT_TRUE(std::any_of(
      all.begin(), all.end(),
      [&](const std::string& message) { return message.find(failure) != std::string::npos; }))
      << op << ": " << all.size() << " failures, the first: " << (all.empty() ? "" : all[0]);
}

TEST(Conformance, the_reference_conforms) {
  ReferenceOps ops, reference;
  std::vector<std::string> seen;
  conformance::Options options;
#ifdef GLINT_SANITIZED
  options.name = "f32";  // the same memory as in bf16
#endif
  const int failed =
      conformance::run_conformance(ops, reference, options, [&](const CaseResult& result) {
        EXPECT_EQ(result.failure, "") << result.op << ": " << result.name;
        EXPECT_EQ(result.error, 0) << result.op << ": " << result.name;
        seen.push_back(result.op);
      });
  EXPECT_EQ(failed, 0);
  if (!options.name.empty()) return;
  for (const std::string& op : conformance::op_names()) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), op), seen.end()) << op << " has no case";
  }
}

TEST(Conformance, a_backend_is_asked_only_for_what_it_has) {
  struct OnlyAdd : ReferenceOps {
    Capabilities capabilities() const override {
      return {.backend = "small", .ops = {Op::kAdd}, .activations = {DType::kBF16}};
    }
  } ops;
  ReferenceOps reference;
  int count = 0;
  conformance::run_conformance(ops, reference, {}, [&](const CaseResult& result) {
    EXPECT_EQ(result.op, "add");
    EXPECT_EQ(result.name.substr(0, 4), "bf16");
    ++count;
  });
  EXPECT_GT(count, 0);
}

TEST(Conformance, timing_reports_time_and_work) {
  ReferenceOps ops, reference;
  int count = 0;
  conformance::run_conformance(ops, reference, {.op = "permute", .name = "T 1,", .timing = true},
                               [&](const CaseResult& result) {
                                 EXPECT_GT(result.seconds, 0);
                                 EXPECT_GT(result.cost.bytes, 0);
                                 ++count;
                               });
  EXPECT_GT(count, 0);
}

TEST(Conformance, finds_a_single_wrong_element_of_a_large_output) {
  struct Wrong : ReferenceOps {
    void rms_norm(const RmsNormArgs& args) override {
      ReferenceOps::rms_norm(args);
      const std::int64_t T = args.out.dim(0);
      if (T > 0 && args.out.dtype == DType::kBF16) args.out.row<BF16>(T - 1)[0].bits ^= 0x40;
    }
  } ops;
  expect_found(ops, "rms_norm", "6144", "the reference has");
}

TEST(Conformance, finds_a_second_rounding) {
  // silu(gate), then its product with up, each rounded to bf16.
  struct Wrong : ReferenceOps {
    void silu_mul(const SiluMulArgs& args) override {
      if (args.gate.dtype != DType::kBF16 || args.gate.size() == 0)
        return ReferenceOps::silu_mul(args);
      std::vector<BF16> ones(args.up.size(), to_bf16(1));
      SiluMulArgs silu = args;
      silu.up.data = reinterpret_cast<std::byte*>(ones.data());
      ReferenceOps::silu_mul(silu);
      BF16* out = args.out.ptr<BF16>();
      const BF16* up = args.up.ptr<BF16>();
      for (std::int64_t i = 0; i < args.up.size(); ++i) {
        out[i] = to_bf16(to_float(out[i]) * to_float(up[i]));
      }
    }
  } ops;
  expect_found(ops, "silu_mul", "7 x 6144", "relative error of");
}

TEST(Conformance, the_composition_of_moe_has_no_part_of_the_backend) {
  struct OwnParts : ReferenceOps {
    bool fused = false;
    void moe(const MoeArgs& args, Arena& scratch) override {
      fused = true;
      ReferenceOps::moe(args, scratch);
      fused = false;
    }
    void moe_route(const MoeRouteArgs& args, Arena& scratch) override {
      EXPECT_TRUE(fused);
      ReferenceOps::moe_route(args, scratch);
    }
    void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override {
      EXPECT_TRUE(fused);
      ReferenceOps::moe_experts(args, scratch);
    }
    void moe_combine(const MoeCombineArgs& args, Arena& scratch) override {
      EXPECT_TRUE(fused);
      ReferenceOps::moe_combine(args, scratch);
    }
  } ops;
  ReferenceOps reference;
  int routers_of_bf16 = 0;
  EXPECT_EQ(conformance::run_conformance(ops, reference, {.op = "moe", .name = "T 7,"},
                                         [&](const CaseResult& result) {
                                           routers_of_bf16 +=
                                               result.name.find("router of") != std::string::npos;
                                         }),
            0);
  EXPECT_GT(routers_of_bf16, 0);  // as checkpoints have them
}

TEST(Conformance, finds_weights_that_were_rounded_to_bf16) {
  struct Wrong : ReferenceOps {
    void linear(const LinearArgs& args) override {
      std::vector<float> row(args.weight.cols);
      std::vector<BF16> rounded;
      for (std::int64_t n = 0; n < args.weight.rows; ++n) {
        dequantize_row(args.weight, n, row.data());
        for (const float value : row) rounded.push_back(to_bf16(value));
      }
      LinearArgs wrong = args;
      wrong.weight = {
          .format = WeightFormat::kBF16,
          .rows = args.weight.rows,
          .cols = args.weight.cols,
          .data = Tensor(rounded.data(), DType::kBF16, {args.weight.rows, args.weight.cols})};
      ReferenceOps::linear(wrong);
    }
  } ops;
  expect_found(ops, "linear", "to f32", "out");
}

TEST(Conformance, finds_a_row_that_depends_on_its_batch) {
  struct Wrong : ReferenceOps {
    void linear(const LinearArgs& args) override {
      ReferenceOps::linear(args);
      if (args.x.dim(0) < 8 || args.out.dtype != DType::kF32) return;
      float& first = *args.out.ptr<float>();
      first = std::nextafter(first, 0.f);
    }
  } ops;
  expect_found(ops, "linear", "to f32", "out of token 0 depends on the tokens computed with it");
}

TEST(Conformance, finds_packed_weights_that_are_other_weights) {
  struct Wrong : ReferenceOps {
    std::int64_t packed_bytes(const Weight& weight) override {
      return weight.format == WeightFormat::kF32 ? 4 * weight.rows * weight.cols : 0;
    }
    Weight packed(const Weight& weight, std::byte* to) override {
      Weight packed = weight;
      packed.data.data = to;
      return packed;
    }
    void pack(std::span<const PackedPair> pairs, ThreadPool&) override {
      for (const auto& [from, to] : pairs) {
        std::copy_n(from.data.data, packed_bytes(from), to.data.data);
        *to.data.ptr<float>() *= 2;
      }
    }
  } ops;
  expect_found(ops, "linear", "f32 x f32", "out differs with packed weights");
}

TEST(Conformance, finds_stray_writes) {
  struct Wrong : ReferenceOps {
    void add(const AddArgs& args) override {
      ReferenceOps::add(args);
      args.x.data[args.x.size() * size_of(args.x.dtype)] = std::byte{1};
    }
    void rope(const RopeArgs& args) override {
      RopeArgs wider = args;  // rotates what stands beside the slice
      if (args.x.stride[1] >= 2 * args.x.dim(2)) {
        wider.x.data -= args.x.dim(2) * size_of(args.x.dtype);
        ReferenceOps::rope(wider);
      }
      ReferenceOps::rope(args);
    }
  } ops;
  expect_found(ops, "add", "3 x 16", "stray write");
  expect_found(ops, "rope", "strided", "stray write");
}

TEST(Conformance, finds_cache_bytes_that_differ) {
  struct Wrong : ReferenceOps {
    void write_latent(const WriteLatentArgs& args) override {
      ReferenceOps::write_latent(args);
      const std::int64_t slot = args.slots.ptr<std::int32_t>()[2];
      args.cache.row(slot)[args.cache.row_bytes() - 1] ^= std::byte{1};
    }
  } ops;
  expect_found(ops, "write_latent", "512", "cache differs");
}

TEST(Conformance, finds_ties_that_go_to_the_later_key) {
  struct Wrong : ReferenceOps {
    void select_keys(const SelectKeysArgs& args) override {
      ReferenceOps::select_keys(args);
      const std::int64_t k = args.out.dim(1);
      for (std::int64_t t = 0; t < args.out.dim(0); ++t) {
        // All scores are equal where all weights are zero: take the last keys.
        const float* weights = args.weights.row<float>(t);
        const bool equal = std::all_of(weights, weights + args.weights.dim(1),
                                       [](float weight) { return weight == 0; });
        const std::int32_t visible = args.batch.positions.ptr<std::int32_t>()[t] + 1;
        if (!equal || visible <= k) continue;
        const std::int32_t* pages =
            args.batch.page_table.row<std::int32_t>(args.batch.seqs.ptr<std::int32_t>()[t]);
        for (std::int32_t j = 0; j < k; ++j) {
          const std::int32_t i = visible - static_cast<std::int32_t>(k) + j;
          args.out.row<std::int32_t>(t)[j] = pages[i / kPageSize] * kPageSize + i % kPageSize;
        }
      }
    }
  } ops;
  expect_found(ops, "select_keys", "zeros", "tie, and the later one was taken");
}

TEST(Conformance, finds_keys_that_are_not_the_best) {
  struct Wrong : ReferenceOps {
    void select_keys(const SelectKeysArgs& args) override {
      if (args.weights.size() == 0) return ReferenceOps::select_keys(args);
      std::vector<float> scaled;
      for (std::int64_t i = 0; i < args.weights.size(); ++i) {
        scaled.push_back(args.weights.ptr<float>()[i] * (i % 2 ? 1 : 1.01f));
      }
      SelectKeysArgs wrong = args;
      wrong.weights =
          Tensor(scaled.data(), DType::kF32, {args.weights.dim(0), args.weights.dim(1)});
      ReferenceOps::select_keys(wrong);
    }
  } ops;
  expect_found(ops, "select_keys", "k 16", "against a threshold of");
}

TEST(Conformance, finds_slots_that_do_not_ascend) {
  struct Wrong : ReferenceOps {
    void select_keys(const SelectKeysArgs& args) override {
      ReferenceOps::select_keys(args);
      for (std::int64_t t = 0; t < args.out.dim(0) && args.out.dim(1) > 1; ++t) {
        std::int32_t* out = args.out.row<std::int32_t>(t);
        if (out[1] >= 0) std::swap(out[0], out[1]);
      }
    }
  } ops;
  expect_found(ops, "select_keys", "k 16", "no ascending visible keys");
}

TEST(Conformance, finds_wrong_experts) {
  struct Wrong : ReferenceOps {
    void route(const RouteArgs& args) override {
      RouteArgs wrong = args;
      std::vector<float> none(args.logits.dim(1));
      wrong.bias = Tensor(none.data(), DType::kF32, {args.logits.dim(1)});
      ReferenceOps::route(wrong);
    }
  } ops;
  expect_found(ops, "route", "of 16", "the reference has");
}

TEST(Conformance, finds_a_block_that_is_not_its_composition) {
  struct Wrong : ReferenceOps {
    void moe(const MoeArgs& args, Arena& scratch) override {
      MoeArgs wrong = args;
      wrong.routed_scaling_factor *= 1.1f;
      ReferenceOps::moe(wrong, scratch);
    }
    void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
      DenseFfnArgs wrong = args;
      wrong.eps = 0.1f;
      ReferenceOps::dense_ffn(wrong, scratch);
    }
  } ops;
  expect_found(ops, "moe", "bf16", "delta");
  expect_found(ops, "dense_ffn", "bf16", "delta");
}

TEST(Conformance, finds_padding_that_leaves_a_trace) {
  struct Wrong : ReferenceOps {
    void rope(const RopeArgs& args) override {  // turns padding as position 0 would be
      std::vector<std::int32_t> positions;
      for (std::int64_t t = 0; t < args.positions.size(); ++t) {
        positions.push_back(std::abs(args.positions.ptr<std::int32_t>()[t]));
      }
      positions.push_back(0);  // so that there is data where T = 0
      RopeArgs wrong = args;
      wrong.positions = Tensor(positions.data(), DType::kI32, {args.positions.size()});
      ReferenceOps::rope(wrong);
    }
    void write_index(const WriteIndexArgs& args) override {  // to slot 0
      std::vector<std::int32_t> slots;
      for (std::int64_t t = 0; t < args.slots.size(); ++t) {
        slots.push_back(std::max(args.slots.ptr<std::int32_t>()[t], 0));
      }
      WriteIndexArgs wrong = args;
      wrong.slots = Tensor(slots.data(), DType::kI32, {args.slots.size()});
      ReferenceOps::write_index(wrong);
    }
    void route(const RouteArgs& args) override {
      RouteArgs wrong = args;
      if (!args.given) wrong.positions = {};
      ReferenceOps::route(wrong);
    }
    void grouped_linear(const GroupedLinearArgs& args) override {
      ReferenceOps::grouped_linear(args);
      const std::int64_t R = args.out.dim(0);
      if (R > 0 && args.out.dtype == DType::kF32) *args.out.row<float>(R - 1) = 0;
    }
  } ops;
  expect_found(ops, "rope", "7 x 64", "the reference has");
  expect_found(ops, "write_index", "128", "cache differs");
  expect_found(ops, "route", "padding", "got an expert");
  expect_found(ops, "grouped_linear", "padding", "the reference has");
}

TEST(Conformance, finds_writes_where_there_is_no_token) {
  struct Wrong : ReferenceOps {
    void add(const AddArgs& args) override {
      ReferenceOps::add(args);
      if (args.x.dim(0) == 0) *args.x.data = std::byte{1};
    }
  } ops;
  expect_found(ops, "add", "3 x 16", "where there is no token");
}

}  // namespace
}  // namespace glint
