// Fields of other servers and services that would change the answer and that this one does not
// support. A request that sets one is refused by name: an answer without it would look right.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// Fails on the first unsupported field that is set. Null, false, 0, empty and the default count as
// not set.
void refuse_unsupported(RequestReader& r, Api api);
// refuse_unsupported() of the members of structured_outputs.
void refuse_unsupported_constraints(RequestReader& r);

// The names of those of an API, with their remedies.
std::vector<std::pair<std::string, std::string>> unsupported_fields(Api api);

}  // namespace glint
