// "allOf" as one schema, and keywords beside "anyOf" and "oneOf" in each of their schemas: the
// grammar compiler reads the first of several only, and nothing beside them.
#pragma once

#include <cstddef>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// Puts each "allOf" of `root`, with the keywords beside it and those that its references lead to,
// into one schema with the same values, and keywords beside alternatives into each of these, but
// for properties that none describes. Fails, naming the place, where two schemas say one thing
// differently, or where the copies come to more than `max_bytes`. Before prepare_schema() has
// changed anything.
Status merge_all_of(Json& root, std::size_t max_bytes);

// merge_all_of() of `root` alone, and of the schema that it refers to.
Status merge_root(Json& root, std::size_t max_bytes);

}  // namespace glint
