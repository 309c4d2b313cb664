// The chat layout of GLM-5 as a Jinja template of ours: for checkpoints that come without one. The
// build puts the bundled model's file into the program.
#pragma once

#include <span>
#include <string_view>

namespace glint {

struct TemplateFile {
  std::string_view name, bytes;
};
std::span<const TemplateFile> glm5_template();  // one file

}  // namespace glint
