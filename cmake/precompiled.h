// Headers of the standard library that most sources read, compiled once (cmake/precompile.cmake). Sources include what they use all the
// same: a bare GPU machine compiles without this.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
