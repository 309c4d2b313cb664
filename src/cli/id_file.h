// Token ids as text, and files of them, as `glint score` and `glint eval` read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace glint {

// The integers of a line, between blanks or commas. Fails on what is none.
Result<std::vector<std::int64_t>> parse_ids(std::string_view line);

// .npy (int32 or int64; 2-D: a sequence a row), or text: integers between blanks or commas, a
// sequence a line. Fails, naming the line, on what is no token id, and on a file without any.
Result<TokenSequences> read_ids(const std::string& path);

}  // namespace glint
