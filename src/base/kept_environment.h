// For tests: the variables of the process are afterwards as they were, whatever a test does to
// them.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace glint {

class KeptEnvironment {
 public:
  KeptEnvironment() {
    for (char** variable = environ; *variable; ++variable) kept_.emplace_back(*variable);
  }
  ~KeptEnvironment() {
    ::clearenv();
    for (const std::string& variable : kept_) {
      const std::size_t end = variable.find('=');
      ::setenv(variable.substr(0, end).c_str(), variable.c_str() + end + 1, 1);
    }
  }
  KeptEnvironment(const KeptEnvironment&) = delete;
  KeptEnvironment& operator=(const KeptEnvironment&) = delete;

 private:
  std::vector<std::string> kept_;
};

}  // namespace glint
