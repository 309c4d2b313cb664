// Cases of the backward passes of write_latent and sparse_mla.
#include <cmath>
#include <limits>

#include "base/random.h"
#include "ops/conformance/backward_cases.h"
#include "ops/kv_rows.h"

namespace glint::conformance {
namespace {

Case write_case(DType dtype, LatentFormat format, std::int64_t T, int latent, int rope) {
  Capabilities need = back_needs(dtype);
  need.latents = {format};
  return {.op = "write_latent_back",
          .name = str(short_name(dtype), ", ", name_of(format), " cache, T ", T, ", ", latent,
                      " + ", rope),
          .need = need,
          .tolerance = kElementwiseBackTolerance,
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            constexpr int kPages = 2;
            std::vector<std::int32_t> slots;
            for (std::int64_t t = 0; t < T; ++t) {
              slots.push_back(t % 4 == 2 ? -1 : static_cast<std::int32_t>(t * 37 % 128));
            }
            WriteLatentBackArgs args = {
                .op = {.latent = ws.tokens(ws.input(dtype, {T, latent}, Pad{0, rope})),
                       .k_rope = ws.tokens(ws.input(dtype, {T, rope}, Pad{latent, 0})),
                       .slots = ws.tokens(ws.ints(slots, {T})),
                       .cache = ws.latent_cache(format, kPages, latent, rope)}};
            args.dcache = whole_gradient(ws, "dcache", {kPages * kPageSize, latent + rope});
            args.dlatent = gradient(ws, "dlatent", {T, latent}, {0, rope});
            args.dk_rope = gradient(ws, "dk_rope", {T, rope}, {latent, 0});
            return back_call(ws, &Gradients::write_latent_back, args, cost(args));
          }};
}

struct MlaShape {
  std::int64_t T, H;
  int latent, rope;
  std::int64_t k;
  int pages;
  Pad pad = {};  // of q_latent and out
};

// k slots for each token: all, one, half of them and none valid, in turn, in no order. With
// `causal`, the first t + 1, as tokens of one short sequence have them.
std::vector<std::int32_t> slots_of(const MlaShape& s, bool causal) {
  Random random(static_cast<std::uint64_t>(s.k));
  std::vector<std::int32_t> slots(static_cast<std::size_t>(s.pages * kPageSize)), indices;
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
  for (std::int64_t t = 0; t < s.T; ++t) {
    const std::int64_t counts[] = {s.k, 1, s.k / 2, 0};
    const std::int64_t count = causal ? std::min(t + 1, s.k) : counts[t % 4];
    for (std::int64_t j = 0; j < s.k; ++j) {
      const auto left = static_cast<std::uint32_t>(static_cast<std::int64_t>(slots.size()) - j);
      if (!causal) std::swap(slots[j], slots[j + random.below(left)]);
      indices.push_back(j < count ? slots[j] : -1);
    }
  }
  return indices;
}

// Values of one run, from which the forward pass that came before is computed.
struct Attention {
  MlaShape s;
  float scale;
  std::vector<float> q_latent, q_rope, rows;  // [T, H, ..], [slots, latent + rope]
  std::vector<std::int32_t> indices;
  std::vector<float> out = {}, lse = {};  // [T, H, latent], [T, H]

  void run() {
    const std::int64_t width = s.latent + s.rope;
    for (std::int64_t i = 0; i < s.T * s.H; ++i) {
      std::vector<double> sums(s.latent);
      double total = 0;
      for (std::int64_t j = 0; j < s.k; ++j) {
        const std::int32_t slot = indices[i / s.H * s.k + j];
        if (slot < 0) break;
        const float* const row = &rows[slot * width];
        double score = 0;
        for (int d = 0; d < s.latent; ++d) score += double{q_latent[i * s.latent + d]} * row[d];
        for (int d = 0; d < s.rope; ++d) {
          score += double{q_rope[i * s.rope + d]} * row[s.latent + d];
        }
        const double p = std::exp(score * scale);
        total += p;
        for (int d = 0; d < s.latent; ++d) sums[d] += p * row[d];
      }
      for (const double sum : sums) out.push_back(total > 0 ? static_cast<float>(sum / total) : 0);
      lse.push_back(total > 0 ? static_cast<float>(std::log(total))
                              : -std::numeric_limits<float>::infinity());
    }
  }
};

Case mla_case(DType dtype, LatentFormat format, MlaShape s, bool causal = false) {
  Capabilities need = back_needs(dtype);
  need.latents = {format};
  return {
      .op = "sparse_mla_back",
      .name = str(short_name(dtype), ", ", name_of(format), " cache, T ", s.T, ", ", s.H,
                  " heads, ", s.latent, " + ", s.rope, ", k ", s.k, causal ? ", causal" : "",
                  s.pad.back ? ", strided" : ""),
      .need = need,
      .tolerance = tolerance_of(kSparseMlaBackTolerance, dtype),
      .tokens = s.T,
      .prepare = [=](Workspace& ws) {
        const Pad query = {s.rope + 3, 0};
        const std::int64_t slots = std::int64_t{s.pages} * kPageSize, width = s.latent + s.rope;
        Attention forward = {.s = s,
                             .scale = 1 / std::sqrt(static_cast<float>(width)),
                             .q_latent = ws.noise(s.T * s.H * s.latent, 1, dtype),
                             .q_rope = ws.noise(s.T * s.H * s.rope, 1, dtype),
                             .rows = {},
                             .indices = slots_of(s, causal)};
        // The rows are read back from the cache: noise, as its format keeps it.
        LatentCache cache = ws.latent_cache(format, s.pages, s.latent, s.rope);
        forward.rows.resize(static_cast<std::size_t>(slots * width));
        for (std::int64_t i = 0; i < slots; ++i) {
          read_latent_row(ws.on_host(cache), i, &forward.rows[i * width]);
        }
        forward.run();
        SparseMlaBackArgs args = {
            .op = {.q_latent =
                       ws.tokens(ws.input(dtype, {s.T, s.H, s.latent}, forward.q_latent, s.pad)),
                   .q_rope = ws.tokens(ws.input(dtype, {s.T, s.H, s.rope}, forward.q_rope, query)),
                   .kv = cache,
                   .indices = ws.tokens(ws.ints(forward.indices, {s.T, s.k})),
                   .softmax_scale = forward.scale,
                   .out = ws.tokens(ws.input(dtype, {s.T, s.H, s.latent}, forward.out, s.pad)),
                   .lse = ws.tokens(ws.input(DType::kF32, {s.T, s.H}, forward.lse))}};
        args.dout = gradient(ws, "dout", {s.T, s.H, s.latent}, s.pad);
        args.dq_latent = gradient(ws, "dq_latent", {s.T, s.H, s.latent}, s.pad);
        args.dq_rope = gradient(ws, "dq_rope", {s.T, s.H, s.rope}, query);
        args.dcache = whole_gradient(ws, "dcache", {slots, width});
        return back_call(ws, &Gradients::sparse_mla_back, args, cost(args));
      }};
}

}  // namespace

void add_backward_attention_cases(std::vector<Case>& cases, bool timing) {
  if (timing) {
    cases.push_back(mla_case(DType::kBF16, LatentFormat::kBF16, {16, 64, 512, 64, 512, 64}));
    return;
  }
  for (const DType dtype : kActivations) {
    for (const LatentFormat format : {LatentFormat::kF32, LatentFormat::kBF16}) {
      cases.push_back(write_case(dtype, format, 7, 48, 16));
      cases.push_back(write_case(dtype, format, 1, 5, 2));
      cases.push_back(mla_case(dtype, format, {3, 8, 512, 64, 40, 2}));
      cases.push_back(mla_case(dtype, format, {9, 3, 32, 16, 33, 2, {0, 16}}));
      cases.push_back(mla_case(dtype, format, {5, 5, 100, 10, 7, 1}));
      cases.push_back(mla_case(dtype, format, {2, 1, 16, 6, 1, 1}));
      cases.push_back(mla_case(dtype, format, {150, 2, 24, 8, 20, 3}, true));
    }
  }
}

}  // namespace glint::conformance
