// select_keys in two kernels: scores, and then the best of them. Scores lie in a buffer of the
// backend's, of as many tokens at a time as fit.
#pragma once

#include "backends/cuda/cache/rows.cuh"
#include "backends/cuda/gpu.h"
#include "ops/select_keys.h"

namespace glint::cuda {

// The scores of some tokens: row i is that of token first_token + i.
struct KeyScores {
  const bf16* q;         // [T, heads, 128]
  const float* weights;  // [T, heads]
  int heads, k;
  float weight_scale;  // heads^-0.5 * 128^-0.5
  const std::int32_t *positions, *seqs, *page_table;
  std::int64_t max_pages;
  IndexRows keys;
  std::int64_t first_token;
  float* scores;
  std::int64_t stride;  // of its rows
};

bool can_score_keys(const SelectKeysArgs& args);
// Scores at most `most_keys` keys a token, and nothing for tokens that see k keys or fewer.
void launch_score_keys(const KeyScores& scores, IndexFormat format, std::int64_t tokens,
                       std::int64_t most_keys, const Gpu& gpu);
// launch_score_keys() where many neighbours are of one sequence; on devices with wgmma.
void launch_score_prompt_keys(const KeyScores& scores, IndexFormat format, std::int64_t tokens,
                              std::int64_t most_keys, const Gpu& gpu);

// Writes the results of select_keys for `tokens` tokens from scores.first_token on.
void launch_choose_keys(const KeyScores& scores, std::int32_t* out, std::int64_t tokens,
                        std::int64_t most_keys, const Gpu& gpu);

}  // namespace glint::cuda
