#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu_ops.h"

namespace glint {

void CpuOps::place_rows(const PlaceRowsArgs& args) {
  check(args);
  const std::int32_t* const tokens = args.tokens.ptr<std::int32_t>();
  std::int32_t* const ids = args.ids.ptr<std::int32_t>();
  std::int32_t* const positions = args.positions.ptr<std::int32_t>();
  std::int32_t* const slots = args.slots.ptr<std::int32_t>();
  std::int32_t* const seqs = args.seqs.ptr<std::int32_t>();
  std::int64_t t = 0;
  const auto pad = [&](std::int64_t end) {
    for (; t < end; ++t) ids[t] = positions[t] = slots[t] = seqs[t] = -1;
  };
  const auto id_of = [&](std::int32_t token, std::int32_t seat) {
    if (token < -1) return std::max(args.guesses.ptr<std::int32_t>()[-2 - token], -1);
    return token < 0 && seat >= 0 ? args.last.ptr<std::int32_t>()[seat] : token;
  };
  for (std::int64_t s = 0; s < args.slices.dim(0); ++s) {
    const std::int32_t* const slice = args.slices.row<std::int32_t>(s);
    const std::int32_t* const pages = args.page_table.row<std::int32_t>(s);
    const std::int32_t seat = slice[3];
    const std::int32_t cut =
        seat >= 0 && args.rejected ? args.rejected.ptr<std::int32_t>()[seat] : 0;
    std::int32_t position = slice[2];
    if (seat >= 0) position += args.lengths.ptr<std::int32_t>()[seat] + cut;
    pad(slice[0]);
    for (const std::int32_t end = position + slice[1] - cut; position < end; ++position, ++t) {
      ids[t] = id_of(tokens[t], seat);
      positions[t] = position;
      slots[t] = pages[position / kPageSize] * kPageSize + position % kPageSize;
      seqs[t] = static_cast<std::int32_t>(s);
    }
  }
  pad(args.tokens.dim(0));
}

void CpuOps::place_draws(const PlaceDrawsArgs& args) {
  check(args);
  const std::int32_t* const seats = args.seats.ptr<std::int32_t>();
  std::int32_t* const drafts = args.drafts.ptr<std::int32_t>();
  for (std::int64_t r = 0; r < args.positions.dim(0); ++r) {
    if (seats[r] >= 0) {
      args.positions.ptr<std::int32_t>()[r] += args.lengths.ptr<std::int32_t>()[seats[r]];
    }
    if (drafts[r] < -1) drafts[r] = args.guesses.ptr<std::int32_t>()[-2 - drafts[r]];
  }
}

void CpuOps::accept(const AcceptArgs& args) {
  check(args);
  std::int32_t* const lengths = args.lengths.ptr<std::int32_t>();
  for (std::int64_t s = 0; s < args.draws.dim(0); ++s) {
    const std::int32_t* const draw = args.draws.row<std::int32_t>(s);
    const std::int32_t* const tokens = args.tokens.ptr<std::int32_t>() + draw[0];
    const std::int32_t* const drafts = args.drafts.ptr<std::int32_t>() + draw[0];
    const std::int32_t count = draw[1], seat = draw[2], length = draw[3];
    if (seat < 0) continue;
    std::int32_t n = 0;
    while (n < count && tokens[n] >= 0 && (n == 0 || drafts[n] == tokens[n - 1])) ++n;
    if (n > 0) args.last.ptr<std::int32_t>()[seat] = tokens[n - 1];
    lengths[seat] = n + (length >= 0 ? length : lengths[seat]);
    args.rejected.ptr<std::int32_t>()[seat] = count - n;
  }
}

void CpuOps::keep_rows(const KeepRowsArgs& args) {
  check(args);
  const std::int64_t bytes = args.x.dim(1) * static_cast<int>(size_of(args.x.dtype));
  for (std::int64_t s = 0; s < args.rows.dim(0); ++s) {
    const std::int32_t seat = args.seats.ptr<std::int32_t>()[s];
    if (seat < 0) continue;
    const std::int32_t row =
        args.rows.ptr<std::int32_t>()[s] - args.rejected.ptr<std::int32_t>()[seat];
    std::memcpy(args.out.data + seat * bytes, args.x.data + row * bytes,
                static_cast<std::size_t>(bytes));
  }
}

void CpuOps::count_tokens(const CountTokensArgs& args) {
  check(args);
  const std::int32_t* const tokens = args.tokens.ptr<std::int32_t>();
  const std::int32_t* const drafts = args.drafts.ptr<std::int32_t>();
  const std::int32_t* const seats = args.seats.ptr<std::int32_t>();
  bool right = false;
  for (std::int64_t r = 0; r < args.tokens.dim(0); ++r) {
    right =
        seats[r] >= 0 && tokens[r] >= 0 && (drafts[r] < 0 || (right && drafts[r] == tokens[r - 1]));
    if (right) args.counts.row<std::int32_t>(seats[r])[tokens[r]] += kCountOfSaid;
  }
}

}  // namespace glint
