// The chat layout of GLM-5 as a Jinja template of ours: for checkpoints that come without one. The
// build puts the bundled model's file into the program.
#pragma once

#include "base/embedded_file.h"

namespace glint {

std::span<const EmbeddedFile> glm5_template();  // one file

}  // namespace glint
