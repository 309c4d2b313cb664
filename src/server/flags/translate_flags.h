// Command lines and configuration files of vLLM, SGLang and TensorRT-LLM, as arguments of `glint
// serve`: each name keeps its owner's meaning. What has no meaning here is reported, not dropped in
// silence; an unknown name is refused with a suggestion.
//
// A configuration file is read by the same table: its keys are flags, nested ones joined by dots
// (kv_cache_config.dtype).
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/result.h"
#include "server/flags/flag_table.h"
#include "server/flags/graph_flags.h"

namespace glint {

struct TranslatedArgs {
  std::vector<std::string> args;     // for the options of `glint serve`
  std::vector<std::string> ignored;  // "--tp-size 8 (parallel sizes describe GPUs; one rank runs)"
  // Fields that config.json must have with these values.
  std::vector<std::pair<std::string, std::string>> expected;
  bool headless = false;  // it is to follow another machine's server
  GraphFlags graphs;
};

// `own` are the options of `glint serve`, which every dialect knows too. Of a dialect that is not
// glint's, its defaults come first. Files named by --config and --extra-llm-api-options are read
// here: the command line wins over them, except TensorRT-LLM's, which win.
Result<TranslatedArgs> translate_flags(Dialect dialect, std::span<const std::string> args,
                                       const OptionList& own);

}  // namespace glint
