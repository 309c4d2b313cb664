// Structural tags of requests, in vLLM's and SGLang's older form ({"structures": [{"begin",
// "schema", "end"}, ...], "triggers": [...]}) and in xgrammar's ({"format": {...}}): text with
// parts that follow a grammar.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace glint {

// The given tag as one of xgrammar's, its schemas prepared. Fails on formats that are not supported
// and on what is too deep or too large, with the place.
Result<Json> read_structural_tag(const Json& given);

}  // namespace glint
