// StepPlan: what one forward pass runs. There is no prefill or decode: a sequence is a list of
// tokens of which the first `first` are in the cache, and a slice runs the next `count` of them.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"

namespace glint {

// One sequence's share of a step: positions [first, first + count).
struct SeqSlice {
  int first = 0;
  int count = 0;
  int logit_rows = 0;   // how many of its last rows need logits
  int token_begin = 0;  // its tokens start here in StepPlan::tokens
  int page_begin = 0;  // its pages, for positions [0, first + count), start here in StepPlan::pages
  int num_pages = 0;
};

// Flat and self-contained, so that it can be sent to other ranks as it is.
struct StepPlan {
  std::vector<SeqSlice> slices;
  std::vector<TokenId> tokens;  // of all slices, in order
  std::vector<PageId> pages;

  // Appends a slice that runs `tokens` from position `first` and wants logits of its last
  // `logit_rows` rows. `pages` are the sequence's, in position order, and must cover first +
  // tokens.size() positions.
  void add(int first, std::span<const TokenId> tokens, std::span<const PageId> pages,
           int logit_rows);
};

}  // namespace glint
