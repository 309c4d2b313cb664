// Load tests as one HTML page that opens offline, prints, and has a light and a dark form.
#pragma once

#include <span>
#include <string>

#include "bench/results.h"

namespace glint {

// Runs that can be told apart on one page.
inline constexpr std::size_t kMaxRuns = 8;

// Measurements of one label are a run. A table of all measurements, those of the same load below
// each other; the curves over the number of clients, a line for each run, if there are several; and
// of each its distributions and a timeline of every request, as far as it has records. `when`
// stands below the title. At most kMaxRuns runs.
std::string load_html(std::span<const Measurement> all, const std::string& when);

// The table of load_html(), for a terminal.
std::string load_table(std::span<const Measurement> all);

}  // namespace glint
