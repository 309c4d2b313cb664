// Made-up weights, in the memory of a device: for the time that a model takes there.
#pragma once

#include "model/weights.h"
#include "tensor/device.h"

namespace glint {

// Fills all of `weights`, which lie on `device`, with numbers of order 0.02, and norms with ones:
// activations stay of order one. A stretch of random numbers again and again, so that nothing comes
// over the bus but that stretch; the router, which is shorter, has none twice.
void fill_with_noise(ModelWeights& weights, Device& device);

}  // namespace glint
