// Whole parts that hold a number of things.
#pragma once

namespace glint {

constexpr auto ceil_div(auto n, auto each) { return (n + each - 1) / each; }

// To the next multiple.
constexpr auto round_up(auto n, auto to) { return ceil_div(n, to) * to; }

}  // namespace glint
