// Load tests as one HTML page that opens offline, prints, and has a light and a dark form.
#pragma once

#include <span>
#include <string>

#include "bench/results.h"

namespace glint {

// A table of all measurements, side by side; the curves over the number of clients, if there are
// several; and of each its distributions and a timeline of every request. Measurements keep their
// records. `when` stands below the title.
std::string load_html(std::span<const Measurement> all, const std::string& when);

}  // namespace glint
