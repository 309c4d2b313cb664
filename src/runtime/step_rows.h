// StepRows: the rows of one pass. Flat, and about numbers only, so that it can be sent to other
// ranks; it may be empty, and a rank with an empty one still steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/step_plan.h"

namespace glint {

// One sequence's rows: positions [first, first + count).
struct RowSlice {
  int first = 0;
  int count = 0;
  // A sequence whose last token stands for kPendingToken, and whose length only the device knows:
  // its rows begin at `from_length` after that (ops/sequences.h), and `first` is the most that this
  // may be. -1: all is known.
  int seat = -1;
  int from_length = 0;
  int logit_rows = 0;   // how many of its last rows need logits
  int token_begin = 0;  // its tokens start here in StepRows::tokens
  int page_begin = 0;   // and its pages here in ::pages, for positions [0, first + count)
  int num_pages = 0;
};

struct StepRows {
  std::uint64_t step = 0;
  std::vector<RowSlice> slices = {};
  std::vector<TokenId> tokens = {};  // of all slices, in order
  std::vector<PageId> pages = {};
  // Tokens of all replicas in this step, where there are several; a replica may have none.
  std::int64_t all_tokens = 0;

  // Appends a slice that runs `tokens` from position `first` and wants logits of its last
  // `logit_rows` rows. `pages` are the sequence's, in position order, and must cover first +
  // tokens.size() positions.
  void add(int first, std::span<const TokenId> tokens, std::span<const PageId> pages,
           int logit_rows);
};

// The same rows in parts, in their order: part i ends before row ends[i]. A slice may become
// several.
std::vector<StepRows> split_rows(const StepRows& all, std::span<const std::int64_t> ends);

// A replica has `rows` rows: the first of them that member `member` of `members` ranks runs which
// share its sequences (cp).
constexpr std::int64_t first_row_of(std::int64_t rows, int member, int members) {
  return rows * member / members;
}

// Sets `all_tokens` of each, if they are several.
void count_all_tokens(std::span<StepRows> replicas);

}  // namespace glint
