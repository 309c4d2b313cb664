// A mixture of experts whose experts lie on several ranks.
#pragma once

#include "model/glm.h"

namespace glint {

// Ops::moe over the ranks of mesh.ep, each with tokens and experts of its own: rows go to the ranks
// of the experts that their tokens chose, and every answer comes home, where they are added in the
// order of the choices. The bits of one rank that has all experts. `batch.all_tokens` is set where
// there are several replicas. The ranks of mesh.tp have the same rows: each is home of a stretch of
// them, and in the end all have all answers.
void moe_over_ranks(const Model& model, const BatchView& batch, int layer, const MoeArgs& args,
                    Arena& arena);

}  // namespace glint
