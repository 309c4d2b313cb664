// A checkpoint quantised in memory, with the bytes that a conversion would write: the weights of an
// engine that answers in eight bits or four beside a trainer.
#pragma once

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "quant/recipe.h"

namespace glint {

class ThreadPool;

// `source` holds the tensors of `config`, the draft layer's or not, in memory that is only read.
// The result has memory of its own. Fails as choose_quantized() does, and on a weight that is no
// number.
Result<Checkpoint> quantize_in_memory(Checkpoint source, const ModelConfig& config,
                                      const Recipe& recipe, ThreadPool& pool);

}  // namespace glint
