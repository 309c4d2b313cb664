// Attention over selected keys for rows, each one head of one token, over one segment of keys at a
// time:
//
//   scores   tile: the panel is the queries of up to 32 rows, x are the keys  [key][row]
//   softmax  of the segment, rows as lanes
//   values   tile: the panel is the transposed latents, x are the p's         [row][latent]
//   merge    with the segments before, one after another: the same bits whether a thread goes
//            through them or each was another thread's
//
// Keys are staged, and transposed, once for all rows of a block: the heads of a token, and tokens
// after each other whose keys are the same but for the last ones, as in a prompt whose keys are all
// selected. Where a row has fewer keys than its block its p's are zeros, which change no bit.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/products.h"
#include "base/ceil_div.h"

namespace glint::cpu {

// The keys are cut into segments by their place in `indices`, never by threads. A segment's rows
// and panels stay in the L2 cache. With segments of 512 one thread had all the keys of a short
// context, and the others waited.
inline constexpr std::int64_t kSegment = 128;
inline std::int64_t segments_of(std::int64_t keys) { return ceil_div(keys, kSegment); }

// The heads of a token, or a group of kPanel of them.
struct AttentionItem {
  std::int64_t token = 0, group = 0;
  std::int64_t keys = 0;
  std::int64_t first_row = 0, heads = 0;  // of the block's rows; AttentionBlock knows them
};

// The shapes of one call.
struct AttentionPlan {
  const SparseMlaArgs& args;
  const Kernels& kernels;
  bool as_bf16;
  std::int64_t width, stride, latent_panels;  // elements of a row; of a staged row
  std::int64_t groups;                        // items of a token
  std::int64_t item_heads, panel_items;       // at most; what a panel holds

  AttentionPlan(const SparseMlaArgs& args, const Products& products);

  int size() const { return as_bf16 ? 2 : 4; }
  Code code() const { return as_bf16 ? kCodeBf16 : kCodeF32; }
  const Family& family() const { return as_bf16 ? kernels.bf16 : kernels.f32; }
  // Gives the items of a block their rows, in panels of kPanel; how many rows they are.
  std::int64_t place(std::vector<AttentionItem>& items) const;
};

// Latent panels [begin, end).
struct PanelRange {
  std::int64_t begin, end;
};

// Sums of a block's rows over each of some segments, in f32.
class AttentionSums {
 public:
  AttentionSums(const AttentionPlan& plan, std::int64_t rows, std::byte* data);
  static std::int64_t bytes(const AttentionPlan& plan, std::int64_t rows, std::int64_t segments);

  float* largest(std::int64_t segment) const { return data_ + segment * stride_; }  // of the scores
  float* sum(std::int64_t segment) const { return largest(segment) + lanes_; }      // of the p's
  // [rows][kPanel] of the products of p and latents
  float* values(std::int64_t segment, std::int64_t latent_panel) const {
    return sum(segment) + lanes_ + latent_panel * rows_ * kPanel;
  }
  // Adds segment s to segment 0, of which `largest` and `sum` are the sums so far.
  void merge(const Kernels& kernels, std::int64_t s, PanelRange panels, float* largest,
             float* sum) const;

  std::int64_t rows() const { return rows_; }
  std::int64_t panel_stride() const { return rows_ * kPanel; }  // floats

 private:
  float* data_;
  std::int64_t rows_, lanes_, stride_;  // lanes: whole panels; floats of a segment
};

// Memory of a thread.
struct AttentionMemory {
  static constexpr std::int64_t kPanels = 4;  // of queries: their sums stay in L2

  std::byte *query_rows, *queries, *keys, *p, *values;
  std::byte* sums;  // of a block, over `segments` segments
  float* scores;
  TileRows* tiles;

  AttentionMemory(const AttentionPlan& plan, std::int64_t segments, Growing& growing,
                  TileRows& tiles);
  static std::int64_t bytes(const AttentionPlan& plan, std::int64_t segments);
};

// Items that follow each other, each with the keys of the one before and perhaps more.
class AttentionBlock {
 public:
  AttentionBlock(const AttentionPlan& plan, const AttentionMemory& memory,
                 std::vector<AttentionItem> items, std::byte* sums);

  static std::int64_t most_items(const AttentionPlan& plan) {
    return AttentionMemory::kPanels * plan.panel_items;
  }
  // sums of `to` = those of segment `s` of `slots`, the keys of the last item.
  void sum_segment(const std::int32_t* slots, std::int64_t s, std::int64_t to) const;
  // Segment 0 of sums = those of all of them.
  void sum_all(const std::int32_t* slots) const;

  const std::vector<AttentionItem>& items() const { return items_; }
  const AttentionSums& sums() const { return sums_; }

 private:
  // Keys [first, first + count), in `staged` rows.
  struct Segment {
    std::int64_t first, count, staged;
  };
  std::int64_t panels() const { return ceil_div(sums_.rows(), kPanel); }
  int rows_of(std::int64_t panel) const;
  std::byte* queries(std::int64_t panel) const;
  void load_queries(std::int64_t panel) const;
  void prefetch_key(const std::int32_t* slots, std::int64_t j, std::int64_t count) const;
  void stage_key(std::int64_t slot, std::byte* to) const;
  void stage(const std::int32_t* slots, const Segment& keys) const;
  void fill_missing(std::int64_t panel, const Segment& keys, float value) const;
  void weigh(std::int64_t panel, const Segment& keys, std::int64_t to) const;
  void transpose_scores(std::int64_t keys, int rows, std::byte* p) const;
  void sum_values(std::int64_t keys, std::int64_t to) const;

  const AttentionPlan& plan_;
  const AttentionMemory& memory_;
  std::vector<AttentionItem> items_;
  AttentionSums sums_;
};

}  // namespace glint::cpu
