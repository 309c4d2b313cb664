#include "backends/cuda/elements.h"
#include "backends/cuda/sequences/sequences.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 128;

struct Rows {
  const std::int32_t *tokens, *slices, *page_table, *last, *lengths, *rejected, *guesses;
  std::int64_t num_rows, num_slices, num_pages;
  std::int32_t *ids, *positions, *slots, *seqs;
};

// A block for each slice, which also pads the rows up to the next one, and one for the rows before
// the first.
__global__ void __launch_bounds__(kThreads) place_rows_kernel(const Rows rows) {
  const std::int64_t s = std::int64_t{blockIdx.x} - 1;
  const std::int32_t* const slice = rows.slices + 4 * s;
  const std::int32_t seat = s < 0 ? -1 : slice[3];
  const std::int32_t cut = seat >= 0 && rows.rejected ? rows.rejected[seat] : 0;
  const std::int32_t length = seat >= 0 ? rows.lengths[seat] + cut : 0;
  const std::int64_t begin = s < 0 ? 0 : slice[0], end = s < 0 ? 0 : begin + slice[1] - cut;
  const std::int64_t next = s + 1 < rows.num_slices ? rows.slices[4 * (s + 1)] : rows.num_rows;
  for (std::int64_t t = begin + threadIdx.x; t < next; t += kThreads) {
    if (t >= end) {
      rows.ids[t] = rows.positions[t] = rows.slots[t] = rows.seqs[t] = -1;
      continue;
    }
    const std::int32_t position = slice[2] + length + static_cast<std::int32_t>(t - begin);
    const std::int32_t token = rows.tokens[t];
    const std::int32_t page = rows.page_table[s * rows.num_pages + position / kPageSize];
    rows.ids[t] = token < -1               ? max(rows.guesses[-2 - token], -1)
                  : token < 0 && seat >= 0 ? rows.last[seat]
                                           : token;
    rows.positions[t] = position;
    rows.slots[t] = page * kPageSize + position % kPageSize;
    rows.seqs[t] = static_cast<std::int32_t>(s);
  }
}

__global__ void __launch_bounds__(kThreads)
    place_draws_kernel(const std::int32_t* seats, const std::int32_t* lengths,
                       const std::int32_t* guesses, std::int64_t count, std::int32_t* positions,
                       std::int32_t* drafts) {
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r >= count) return;
  if (seats[r] >= 0) positions[r] += lengths[seats[r]];
  if (drafts[r] < -1) drafts[r] = guesses[-2 - drafts[r]];
}

struct Draws {
  const std::int32_t *tokens, *drafts, *draws;
  std::int64_t count;
  std::int32_t *last, *lengths, *rejected;
};

__global__ void __launch_bounds__(kThreads) accept_kernel(const Draws all) {
  const std::int64_t s = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (s >= all.count) return;
  const std::int32_t* const draw = all.draws + 4 * s;
  const std::int32_t begin = draw[0], count = draw[1], seat = draw[2], length = draw[3];
  if (seat < 0) return;
  std::int32_t n = 0;
  while (n < count && all.tokens[begin + n] >= 0 &&
         (n == 0 || all.drafts[begin + n] == all.tokens[begin + n - 1])) {
    ++n;
  }
  if (n > 0) all.last[seat] = all.tokens[begin + n - 1];
  all.lengths[seat] = n + (length >= 0 ? length : all.lengths[seat]);
  all.rejected[seat] = count - n;
}

// A block for each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    keep_rows_kernel(const T* x, const std::int32_t* rows, const std::int32_t* seats,
                     const std::int32_t* rejected, std::int64_t width, T* out) {
  const std::int32_t seat = seats[blockIdx.x];
  if (seat < 0) return;
  const std::int64_t from = rows[blockIdx.x] - rejected[seat];
  for (std::int64_t d = threadIdx.x; d < width; d += kThreads) {
    out[seat * width + d] = x[from * width + d];
  }
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
                     .lengths = args.lengths.ptr<std::int32_t>(),
                     .rejected = args.rejected ? args.rejected.ptr<std::int32_t>() : nullptr,
                     .guesses = args.guesses.ptr<std::int32_t>(),
                     .num_rows = args.tokens.dim(0),
                     .num_slices = args.slices.dim(0),
                     .num_pages = args.page_table.dim(1),
                     .ids = args.ids.ptr<std::int32_t>(),
                     .positions = args.positions.ptr<std::int32_t>(),
                     .slots = args.slots.ptr<std::int32_t>(),
                     .seqs = args.seqs.ptr<std::int32_t>()};
  place_rows_kernel<<<static_cast<unsigned>(rows.num_slices + 1), kThreads, 0, gpu.stream>>>(rows);
}

void launch_place_draws(const PlaceDrawsArgs& args, const Gpu& gpu) {
  const std::int64_t R = args.positions.dim(0);
  if (R == 0) return;
  place_draws_kernel<<<static_cast<unsigned>((R + kThreads - 1) / kThreads), kThreads, 0,
                       gpu.stream>>>(
      args.seats.ptr<std::int32_t>(), args.lengths.ptr<std::int32_t>(),
      args.guesses.ptr<std::int32_t>(), R, args.positions.ptr<std::int32_t>(),
      args.drafts.ptr<std::int32_t>());
}

void launch_accept(const AcceptArgs& args, const Gpu& gpu) {
  const std::int64_t S = args.draws.dim(0);
  if (S == 0) return;
  const Draws all = {.tokens = args.tokens.ptr<std::int32_t>(),
                     .drafts = args.drafts.ptr<std::int32_t>(),
                     .draws = args.draws.ptr<std::int32_t>(),
                     .count = S,
                     .last = args.last.ptr<std::int32_t>(),
                     .lengths = args.lengths.ptr<std::int32_t>(),
                     .rejected = args.rejected.ptr<std::int32_t>()};
  accept_kernel<<<static_cast<unsigned>((S + kThreads - 1) / kThreads), kThreads, 0, gpu.stream>>>(
      all);
}

void launch_keep_rows(const KeepRowsArgs& args, const Gpu& gpu) {
  const std::int64_t S = args.rows.dim(0), D = args.x.dim(1);
  if (S == 0 || D == 0) return;
  with_elements(args.x, [&]<class T>(const T* x) {
    keep_rows_kernel<<<static_cast<unsigned>(S), kThreads, 0, gpu.stream>>>(
        x, args.rows.ptr<std::int32_t>(), args.seats.ptr<std::int32_t>(),
        args.rejected.ptr<std::int32_t>(), D, reinterpret_cast<T*>(args.out.data));
  });
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
