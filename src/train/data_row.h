// A row of training data as tables of data sets give it: they write null for a member that a row
// has not, and "tools" as a text.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// The object of a line, without the members that are null; "tools" that are a text of JSON are
// read.
Result<Json> parse_data_row(std::string_view line);

// Its "chat_template_kwargs", an object; empty where it has none. Fails on names that are set
// beside it.
Result<Json> template_kwargs_of(const Json& row);

}  // namespace glint
