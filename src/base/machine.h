// Which machine this is.
#pragma once

#include <string>

#include "base/file.h"

namespace glint {

// The same text for all processes of a machine, containers too, until it starts anew; empty where
// the kernel does not say.
inline std::string boot_id() {
  const Result<std::string> id = read_file("/proc/sys/kernel/random/boot_id", 64);
  std::string text = id.ok() ? id.value() : std::string();
  std::erase(text, '\n');
  return text;
}

}  // namespace glint
