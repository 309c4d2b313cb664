#include "backends/cuda/sequences/sequences.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 128;

struct Rows {
  const std::int32_t *tokens, *slices, *page_table, *last;
  std::int64_t num_rows, num_slices, num_pages;
  std::int32_t *ids, *positions, *slots, *seqs;
};

// A block for each slice, which also pads the rows up to the next one, and one for the rows before
// the first.
__global__ void __launch_bounds__(kThreads) place_rows_kernel(const Rows rows) {
  const std::int64_t s = std::int64_t{blockIdx.x} - 1;
  const std::int32_t* const slice = rows.slices + 4 * s;
  const std::int64_t begin = s < 0 ? 0 : slice[0], end = s < 0 ? 0 : begin + slice[1];
  const std::int64_t next = s + 1 < rows.num_slices ? rows.slices[4 * (s + 1)] : rows.num_rows;
  for (std::int64_t t = begin + threadIdx.x; t < next; t += kThreads) {
    if (t >= end) {
      rows.ids[t] = rows.positions[t] = rows.slots[t] = rows.seqs[t] = -1;
      continue;
    }
    const std::int32_t position = slice[2] + static_cast<std::int32_t>(t - begin);
    const std::int32_t seat = slice[3], token = rows.tokens[t];
    const std::int32_t page = rows.page_table[s * rows.num_pages + position / kPageSize];
    rows.ids[t] = token >= 0 || seat < 0 ? token : rows.last[seat];
    rows.positions[t] = position;
    rows.slots[t] = page * kPageSize + position % kPageSize;
    rows.seqs[t] = static_cast<std::int32_t>(s);
  }
}

__global__ void __launch_bounds__(kThreads)
    keep_tokens_kernel(const std::int32_t* tokens, const std::int32_t* seats, std::int64_t count,
                       std::int32_t* last) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r < count && seats[r] >= 0 && tokens[r] >= 0) last[seats[r]] = tokens[r];
}

// A row looks back over its drafts. Sums of integers do not depend on the order of the rows.
__global__ void __launch_bounds__(kThreads)
    count_tokens_kernel(const std::int32_t* tokens, const std::int32_t* drafts,
                        const std::int32_t* seats, std::int64_t count, std::int64_t vocab,
                        std::int32_t* counts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r >= count) return;
  for (std::int64_t at = r;; --at) {
    if (seats[at] < 0 || tokens[at] < 0) return;
    if (drafts[at] < 0) break;
    if (at == 0 || drafts[at] != tokens[at - 1]) return;
  }
  atomicAdd(counts + seats[r] * vocab + tokens[r], kCountOfSaid);
}

}  // namespace

void launch_place_rows(const PlaceRowsArgs& args, const Gpu& gpu) {
  if (args.tokens.dim(0) == 0) return;
  const Rows rows = {.tokens = args.tokens.ptr<std::int32_t>(),
                     .slices = args.slices.ptr<std::int32_t>(),
                     .page_table = args.page_table.ptr<std::int32_t>(),
                     .last = args.last.ptr<std::int32_t>(),
                     .num_rows = args.tokens.dim(0),
                     .num_slices = args.slices.dim(0),
                     .num_pages = args.page_table.dim(1),
                     .ids = args.ids.ptr<std::int32_t>(),
                     .positions = args.positions.ptr<std::int32_t>(),
                     .slots = args.slots.ptr<std::int32_t>(),
                     .seqs = args.seqs.ptr<std::int32_t>()};
  place_rows_kernel<<<static_cast<unsigned>(rows.num_slices + 1), kThreads, 0, gpu.stream>>>(rows);
}

void launch_keep_tokens(const KeepTokensArgs& args, const Gpu& gpu) {
  const std::int64_t R = args.tokens.dim(0);
  if (R == 0) return;
  keep_tokens_kernel<<<static_cast<unsigned>((R + kThreads - 1) / kThreads), kThreads, 0,
                       gpu.stream>>>(args.tokens.ptr<std::int32_t>(),
                                     args.seats.ptr<std::int32_t>(), R,
                                     args.last.ptr<std::int32_t>());
}

void launch_count_tokens(const CountTokensArgs& args, const Gpu& gpu) {
  const std::int64_t R = args.tokens.dim(0);
  if (R == 0) return;
  const auto blocks = static_cast<unsigned>((R + kThreads - 1) / kThreads);
  count_tokens_kernel<<<blocks, kThreads, 0, gpu.stream>>>(
      args.tokens.ptr<std::int32_t>(), args.drafts.ptr<std::int32_t>(),
      args.seats.ptr<std::int32_t>(), R, args.counts.dim(1), args.counts.ptr<std::int32_t>());
}

}  // namespace glint::cuda
