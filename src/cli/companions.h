// Options that say something about another one, refused where that is not there.
#pragma once

#include <initializer_list>

#include "base/result.h"
#include "base/str.h"

namespace glint {

struct Companion {
  const char* name;
  bool given;
  const char* needs;  // for people
  bool there;
};

inline Status check_needs(std::initializer_list<Companion> all) {
  for (const auto& [name, given, needs, there] : all) {
    if (given && !there) return invalid(str(name, " needs ", needs));
  }
  return Ok{};
}

}  // namespace glint
