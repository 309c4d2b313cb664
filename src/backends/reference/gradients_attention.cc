// The reference's backward passes of write_latent and sparse_mla.
#include <algorithm>
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_gradients.h"
#include "ops/kv_rows.h"

namespace glint {

using namespace reference;

void ReferenceGradients::write_latent_back(const WriteLatentBackArgs& args) {
  check(args);
  const std::int64_t latent = args.dlatent.dim(1), rope = args.dk_rope.dim(1);
  for (std::int64_t t = 0; t < args.dlatent.dim(0); ++t) {
    const std::int64_t slot = index_or_padding(args.op.slots, t, args.op.cache.num_slots, "slot");
    if (slot < 0) continue;
    float* const g = args.dcache.row<float>(slot);
    for (std::int64_t d = 0; d < latent; ++d) args.dlatent.row<float>(t)[d] += g[d];
    for (std::int64_t d = 0; d < rope; ++d) args.dk_rope.row<float>(t)[d] += g[latent + d];
    std::fill_n(g, latent + rope, 0.0f);
  }
}

namespace {

// One head of one token.
struct Query {
  std::vector<float> q = {};  // [latent + rope]
  std::vector<float> g = {};  // [latent]
  double along = 0;           // D = g . out
  double lse = 0;
  std::vector<double> dq = {};  // [latent + rope]
};

void add(const std::vector<double>& sums, std::int64_t begin, const Tensor& to, std::int64_t t,
         std::int64_t h) {
  float* const row = to.row<float>(t) + h * to.stride[1];
  for (std::int64_t d = 0; d < to.dim(2); ++d) row[d] += static_cast<float>(sums[begin + d]);
}

}  // namespace

void ReferenceGradients::sparse_mla_back(const SparseMlaBackArgs& args) {
  check(args);
  const SparseMlaArgs& op = args.op;
  const std::int64_t T = op.q_latent.dim(0), H = op.q_latent.dim(1), k = op.indices.dim(1);
  const std::int64_t latent = op.kv.latent_dim, width = latent + op.kv.rope_dim;
  std::vector<double> dcache(op.kv.num_slots * width);
  std::vector<float> row(width);
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t h = 0; h < H; ++h) {
      const auto head = [&](const Tensor& x) { return floats_of(x.slice(0, t, 1).slice(1, h, 1)); };
      Query one = {.q = head(op.q_latent), .g = head(args.dout)};
      const std::vector<float> q_rope = head(op.q_rope), out = head(op.out);
      one.q.insert(one.q.end(), q_rope.begin(), q_rope.end());
      one.along = dot(one.g.data(), out.data(), latent);
      one.lse = op.lse.row<float>(t)[h];
      one.dq.resize(width);
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t slot = index_or_padding(op.indices, t * k + j, op.kv.num_slots, "slot");
        if (slot < 0) break;
        read_latent_row(op.kv, slot, row.data());
        const double score = op.softmax_scale * dot(one.q.data(), row.data(), width);
        const double p = std::exp(score - one.lse);
        const double ds =
            p * (dot(one.g.data(), row.data(), latent) - one.along) * op.softmax_scale;
        double* const to = &dcache[slot * width];
        for (std::int64_t d = 0; d < width; ++d) {
          one.dq[d] += ds * row[d];
          to[d] += ds * one.q[d] + (d < latent ? p * one.g[d] : 0);
        }
      }
      std::fill_n(args.dout.row<float>(t) + h * args.dout.stride[1], latent, 0.0f);
      add(one.dq, 0, args.dq_latent, t, h);
      add(one.dq, latent, args.dq_rope, t, h);
    }
  }
  for (std::size_t i = 0; i < dcache.size(); ++i) {
    args.dcache.ptr<float>()[i] += static_cast<float>(dcache[i]);
  }
}

}  // namespace glint
