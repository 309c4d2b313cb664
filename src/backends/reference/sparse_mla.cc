// The reference of sparse_mla (ops/sparse_mla.h).
#include <algorithm>
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"
#include "ops/kv_rows.h"

namespace glint {

using namespace reference;

namespace {

// The cache rows that token t attends to, [n, latent + rope].
std::vector<float> selected_rows(const SparseMlaArgs& args, std::int64_t t) {
  const std::int64_t k = args.indices.dim(1), width = args.kv.latent_dim + args.kv.rope_dim;
  const std::int32_t* slots = args.indices.row<std::int32_t>(t);
  const std::int64_t n = std::find(slots, slots + k, -1) - slots;
  for (std::int64_t j = n; j < k; ++j) GLINT_CHECK(slots[j] == -1, "a slot follows a -1");
  std::vector<float> rows(n * width);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t slot = index_at(args.indices, t * k + j, args.kv.num_slots, "slot");
    read_latent_row(args.kv, slot, &rows[j * width]);
  }
  // An fp8 row is code * scale, of which bf16 kernels keep bf16.
  if (args.kv.format == LatentFormat::kFp8 && args.q_latent.dtype == DType::kBF16) {
    for (float& value : rows) value = to_float(to_bf16(value));
  }
  return rows;
}

// Attention of query `q` [latent + rope] over `rows`; writes out [latent], returns lse.
double attend_row(const std::vector<float>& q, const std::vector<float>& rows, double softmax_scale,
                  std::vector<double>& out) {
  const std::int64_t width = static_cast<std::int64_t>(q.size());
  const std::int64_t n = static_cast<std::int64_t>(rows.size()) / width;
  std::fill(out.begin(), out.end(), 0);
  if (n == 0) return -INFINITY;
  std::vector<double> p(n);
  for (std::int64_t j = 0; j < n; ++j) {
    p[j] = softmax_scale * dot(q.data(), &rows[j * width], width);
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - largest);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += p[j] / sum * rows[j * width + d];
  }
  return largest + std::log(sum);
}

}  // namespace

void ReferenceOps::sparse_mla(const SparseMlaArgs& args) {
  check(args);
  std::vector<double> out(args.kv.latent_dim);
  for (std::int64_t t = 0; t < args.q_latent.dim(0); ++t) {
    const std::vector<float> rows = selected_rows(args, t);
    for (std::int64_t h = 0; h < args.q_latent.dim(1); ++h) {
      const auto head = [&](const Tensor& q) { return floats_of(q.slice(0, t, 1).slice(1, h, 1)); };
      std::vector<float> q = head(args.q_latent);
      const std::vector<float> q_rope = head(args.q_rope);
      q.insert(q.end(), q_rope.begin(), q_rope.end());
      const double lse = attend_row(q, rows, args.softmax_scale, out);
      if (args.lse) args.lse.row<float>(t)[h] = static_cast<float>(lse);
      with_float_type(args.out.dtype, [&](auto type) {
        using T = decltype(type);
        T* row = args.out.row<T>(t) + h * args.out.stride[1];
        for (std::size_t d = 0; d < out.size(); ++d) {
          row[d] = from_float<T>(static_cast<float>(out[d]));
        }
      });
    }
  }
}

}  // namespace glint
