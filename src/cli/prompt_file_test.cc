#include "cli/prompt_file.h"

#include <gtest/gtest.h>

namespace glint {
namespace {}  // namespace
}  // namespace glint
