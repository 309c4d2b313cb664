// Rotary position embedding: its parameters as config.json spells them (flat, nested, none, yarn),
// and the table of inverse frequencies that they mean.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

class ThreadPool;

struct RopeConfig {
  double theta = 0;
  // Yarn (DeepSeek-V3.2). factor 1 means none, and the rest is unused. It applies at every length,
  // as in the engines that read the file; only a server-wide context limit could switch it off.
  double factor = 1;
  std::int64_t original_max_position_embeddings = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;         // the borders of the blend are whole pairs
  double attention_factor = 1;  // cos and sin are multiplied by it, in attention and indexer
  double softmax_factor = 1;    // and the scale of the softmax by this, in attention

  bool is_yarn() const { return factor != 1; }
  bool operator==(const RopeConfig&) const = default;
};

// Reads rope_parameters, rope_theta and rope_scaling of a config.json. Two places that disagree, a
// scaling other than none and yarn, or no theta at all are refused. Yarn's two scales are, with
// m(x) = 0.1 * x * ln(factor) + 1,
//   softmax_factor    m(mscale_all_dim)^2, if that is given and not 0
//   attention_factor  as given, else m(mscale) / m(mscale_all_dim) if both are given and not 0,
//                     else m(1)
Result<RopeConfig> parse_rope(const Json& config);

// [dim / 2] f32: theta^(-2j/dim), blended towards 1/factor of it with yarn. Each step is rounded to
// f32 as the reference implementations do, because cos and sin of large positions depend on it.
std::vector<float> rope_inv_freq(const RopeConfig& rope, std::int64_t dim);

// [positions, dim] f32: a row is cos [dim / 2], then sin [dim / 2], of position * inv_freq, each
// times the attention factor. That product is rounded to f32 once, as every implementation of the
// model does: at position 200,000 the angle is up to 0.008 rad off the exact one, and the weights
// have learned with it. Shared by `pool`'s threads.
std::vector<float> rope_table(const RopeConfig& rope, std::int64_t dim, std::int64_t positions,
                              ThreadPool& pool);

}  // namespace glint
