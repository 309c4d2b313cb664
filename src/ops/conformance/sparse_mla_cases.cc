// Cases of sparse_mla.
#include "base/random.h"
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

struct MlaShape {
  std::int64_t T, H;
  int latent, rope;
  std::int64_t k;
  int pages;
  bool lse = true;
  float scale = 0.0625f;
  Pad pad = {};  // of q_latent and out
  bool one_list = false;
};

// k slots for each token: none, one, all and some of them valid, in turn, in no order. In one_list
// as at the start of a prompt: one token more for each of one list, but for one token in the
// middle.
std::vector<std::int32_t> indices_of(const MlaShape& s) {
  Random random(s.k);
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> slots(s.pages * kPageSize);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
  for (std::int64_t t = 0; s.one_list && t < s.T; ++t) {
    for (std::int64_t j = 0; j < s.k; ++j) {
      const std::int64_t other = t == s.T / 2 && j > 0 ? 1 : 0;
      indices.push_back(j <= t ? slots[slots.size() - 1 - j - other] : -1);
    }
  }
  for (std::int64_t t = 0; !s.one_list && t < s.T; ++t) {
    const std::int64_t counts[] = {s.k, 1, s.k / 2, 0, s.k - s.k / 3};
    for (std::int64_t j = 0; j < s.k; ++j) {
      const std::int64_t left = static_cast<std::int64_t>(slots.size()) - j;
      std::swap(slots[j], slots[j + random.below(static_cast<std::uint32_t>(left))]);
      indices.push_back(j < counts[t % 5] ? slots[j] : -1);
    }
  }
  return indices;
}

Case mla_case(DType dtype, LatentFormat format, MlaShape s) {
  return {
      .op = "sparse_mla",
      .name = str(short_name(dtype), ", ", name_of(format), " cache, T ", s.T, ", ", s.H,
                  " heads, ", s.latent, " + ", s.rope, ", k ", s.k, s.scale > 0.1f ? ", sharp" : "",
                  s.pad.back ? ", strided" : "", s.one_list ? ", one list" : ""),
      .need = {.ops = {Op::kSparseMla}, .activations = {dtype}, .latents = {format}},
      .tolerance = tolerance_of(kSparseMlaTolerance, dtype),
      .tokens = s.T,
      .prepare = [=](Workspace& ws) {
        // q_rope is the end of a query, as in the model.
        const Pad query = {s.rope + 3, 0};
        SparseMlaArgs args = {.q_latent = ws.tokens(ws.input(dtype, {s.T, s.H, s.latent}, s.pad)),
                              .q_rope = ws.tokens(ws.input(dtype, {s.T, s.H, s.rope}, query)),
                              .kv = ws.latent_cache(format, s.pages, s.latent, s.rope),
                              .indices = ws.tokens(ws.ints(indices_of(s), {s.T, s.k})),
                              .softmax_scale = s.scale,
                              .out = ws.output("out", dtype, {s.T, s.H, s.latent}, s.pad)};
        if (s.lse) args.lse = ws.output("lse", DType::kF32, {s.T, s.H});
        return Call{[=, &ws] { ws.ops().sparse_mla(args); }, cost(args)};
      }};
}

}  // namespace

void add_sparse_mla_cases(std::vector<Case>& cases, bool timing) {
  constexpr LatentFormat kFormats[] = {LatentFormat::kF32, LatentFormat::kBF16, LatentFormat::kFp8};
  if (timing) {
    for (const LatentFormat format : {LatentFormat::kBF16, LatentFormat::kFp8}) {
      cases.push_back(mla_case(DType::kBF16, format, {1, 64, 512, 64, 2048, 256, false}));
    }
    return;
  }
  for (const DType dtype : kActivations) {
    for (const LatentFormat format : kFormats) {
      cases.push_back(mla_case(dtype, format, {3, 64, 512, 64, 200, 5}));
      cases.push_back(mla_case(dtype, format, {7, 8, 512, 64, 64, 3, false, 0.0625f, {0, 48}}));
      cases.push_back(mla_case(dtype, format, {16, 3, 32, 16, 33, 2}));
      cases.push_back(mla_case(dtype, format, {33, 1, 100, 10, 16, 2}));
      cases.push_back(mla_case(dtype, format, {2, 5, 200, 6, 1, 1}));
      cases.push_back(mla_case(dtype, format, {1, 2, 512, 64, 2048, 33, false}));
      if (dtype == DType::kBF16) {
        cases.push_back(
            mla_case(dtype, format, {300, 9, 512, 64, 310, 6, true, 0.0625f, {}, true}));
        cases.push_back(mla_case(dtype, format, {5, 4, 512, 64, 100, 3, true, 0.5f}));
        cases.push_back(mla_case(dtype, format, {2, 16, 512, 64, 100, 3}));
      }
    }
  }
}

}  // namespace glint::conformance
