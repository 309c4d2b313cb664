// The backends that the model tests run on: the reference, the cpu backend with every instruction
// set of this machine, and its GPU, if it has one that is fit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace glint {

struct BackendUnderTest {
  std::string name;
  std::function<std::unique_ptr<Backend>(int threads)> make;
};

std::vector<BackendUnderTest> backends_under_test();

// The fastest of them; on the host, whatever else there is.
BackendUnderTest best_backend();
BackendUnderTest host_backend();

}  // namespace glint
