// The chat layout of GLM-5 as a Jinja template of ours: for checkpoints that come without one.
#pragma once

#include <string_view>

namespace glint {

std::string_view glm5_template();

}  // namespace glint
