// Cases of write_latent and write_index.
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

// Tokens of two sequences, the second of which crosses a page, with padding behind each.
const std::vector<Sequence> kSequences = {{5, 3}, {-1, 2}, {60, 9}, {-1, 3}};

// Rows of noise, one of zeros and one of large values.
std::vector<float> rows(Workspace& ws, std::int64_t T, std::int64_t D) {
  std::vector<float> values = ws.noise(T * D);
  for (std::int64_t d = 0; d < D && T > 1; ++d) {
    values[d] = 0;
    values[D + d] *= 1e20f;
  }
  return values;
}

Case write_latent_case(DType dtype, LatentFormat format, int latent_dim, int rope_dim, Pad pad,
                       std::vector<Sequence> sequences) {
  return {.op = "write_latent",
          .name = str(short_name(dtype), " to ", name_of(format), ", ", latent_dim, " + ", rope_dim,
                      pad.front ? ", strided" : "", sequences.empty() ? ", no token" : ""),
          .need = {.ops = {Op::kWriteLatent}, .activations = {dtype}, .latents = {format}},
          .prepare = [=](Workspace& ws) {
            const TestBatch batch = make_batch(sequences);
            const std::int64_t T = static_cast<std::int64_t>(batch.slots.size());
            const WriteLatentArgs args = {
                .latent = ws.input(dtype, {T, latent_dim}, rows(ws, T, latent_dim), pad),
                .k_rope = ws.input(dtype, {T, rope_dim}, pad),
                .slots = ws.ints(batch.slots, {T}),
                .cache = ws.latent_cache(format, batch.num_pages, latent_dim, rope_dim)};
            ws.compare_bytes("cache", args.cache.data);
            return Call{[=, &ws] { ws.ops().write_latent(args); }, cost(args)};
          }};
}

Case write_index_case(DType dtype, IndexFormat format, int dim, std::vector<Sequence> sequences) {
  return {.op = "write_index",
          .name = str(short_name(dtype), " to ", name_of(format), ", ", dim,
                      sequences.empty() ? ", no token" : ""),
          .need = {.ops = {Op::kWriteIndex}, .activations = {dtype}, .indexes = {format}},
          .prepare = [=](Workspace& ws) {
            const TestBatch batch = make_batch(sequences);
            const std::int64_t T = static_cast<std::int64_t>(batch.slots.size());
            const WriteIndexArgs args = {.k = ws.input(dtype, {T, dim}, rows(ws, T, dim)),
                                         .slots = ws.ints(batch.slots, {T}),
                                         .cache = ws.index_cache(format, batch.num_pages, dim)};
            ws.compare_bytes("cache", args.cache.data);
            return Call{[=, &ws] { ws.ops().write_index(args); }, cost(args)};
          }};
}

}  // namespace

void add_kv_write_cases(std::vector<Case>& cases, bool timing) {
  const std::vector<Sequence> many = {{.first = 0, .count = 512}};
  for (const DType dtype : kActivations) {
    if (timing && dtype == DType::kF32) continue;
    for (const LatentFormat format :
         {LatentFormat::kF32, LatentFormat::kBF16, LatentFormat::kFp8}) {
      cases.push_back(
          write_latent_case(dtype, format, 512, 64, {512, 0}, timing ? many : kSequences));
      if (timing) continue;
      cases.push_back(write_latent_case(dtype, format, 32, 16, {}, kSequences));
      cases.push_back(write_latent_case(dtype, format, 200, 6, {1, 1}, kSequences));
      cases.push_back(write_latent_case(dtype, format, 5, 2, {}, kSequences));
      cases.push_back(write_latent_case(dtype, format, 32, 16, {}, {}));
    }
    for (const IndexFormat format : {IndexFormat::kF32, IndexFormat::kBF16, IndexFormat::kFp8}) {
      cases.push_back(write_index_case(dtype, format, 128, timing ? many : kSequences));
      if (timing) continue;
      cases.push_back(write_index_case(dtype, format, 32, kSequences));
      cases.push_back(write_index_case(dtype, format, 13, kSequences));
      cases.push_back(write_index_case(dtype, format, 32, {}));
    }
  }
}

}  // namespace glint::conformance
