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
  for (std::int64_t s = 0; s < args.slices.dim(0); ++s) {
    const std::int32_t* const slice = args.slices.row<std::int32_t>(s);
    const std::int32_t* const pages = args.page_table.row<std::int32_t>(s);
    const std::int32_t seat = slice[3];
    pad(slice[0]);
    for (std::int32_t position = slice[2]; position < slice[2] + slice[1]; ++position, ++t) {
      ids[t] = tokens[t] >= 0 || seat < 0 ? tokens[t] : args.last.ptr<std::int32_t>()[seat];
      positions[t] = position;
      slots[t] = pages[position / kPageSize] * kPageSize + position % kPageSize;
      seqs[t] = static_cast<std::int32_t>(s);
    }
  }
  pad(args.tokens.dim(0));
}

void CpuOps::keep_tokens(const KeepTokensArgs& args) {
  check(args);
  const std::int32_t* const seats = args.seats.ptr<std::int32_t>();
  const std::int32_t* const tokens = args.tokens.ptr<std::int32_t>();
  for (std::int64_t r = 0; r < args.tokens.dim(0); ++r) {
    if (seats[r] >= 0 && tokens[r] >= 0) args.last.ptr<std::int32_t>()[seats[r]] = tokens[r];
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
