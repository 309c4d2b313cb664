// The backends that the model tests run on: the reference, and the cpu backend with every
// instruction set of this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace glint {

struct BackendUnderTest {
  std::string name;
  std::function<std::unique_ptr<Ops>(int threads)> make;
};

std::vector<BackendUnderTest> backends_under_test();

// The fastest of them.
BackendUnderTest best_backend();

}  // namespace glint
