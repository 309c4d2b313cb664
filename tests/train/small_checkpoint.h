// A checkpoint of the bundled model's architecture and made-up weights, with a tenth of the
// parameters: for properties of a pass that hold whatever the weights are.
#pragma once

#include <string>

namespace glint {

// Its directory, made at the first call and removed at the end of the program.
const std::string& small_checkpoint();

}  // namespace glint
