// Comparing what must stay secret.
#pragma once

#include <string_view>

namespace glint {

// Whether the texts are equal, in a time that does not tell where they differ, nor how long the
// secret is.
bool same_secret(std::string_view given, std::string_view secret);

}  // namespace glint
