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

// A setting under another name than errors have for it, or of a configuration file.
struct NamedSetting {
  std::string name;  // as errors call it: "--max-num-seqs"
  std::string key;   // as the user does: "max_batch_size"
  std::string path;  // of the file; empty: the command line
};

struct TranslatedArgs {
  std::vector<std::string> args;     // for the options of `glint serve`
  std::vector<std::string> ignored;  // "--tp-size 8 (parallel sizes describe GPUs; one rank runs)"
  // Fields that config.json must have with these values.
  std::vector<std::pair<std::string, std::string>> expected;
  bool headless = false;            // it is to follow another machine's server
  std::vector<NamedSetting> named;  // those that hold
  GraphFlags graphs;
};

// `own` are the options of `glint serve`, which every dialect knows too; they get the defaults of
// the dialect. Files named by --config and --extra-llm-api-options are read here: the command line
// wins over them, except TensorRT-LLM's, which win.
Result<TranslatedArgs> translate_flags(Dialect dialect, std::span<const std::string> args,
                                       OptionList& own);

// An error about an option that was set by another name, or in a file, also says so: who reads
// "--port" looks for it on the command line.
Error name_setting(Error error, std::span<const NamedSetting> settings);

}  // namespace glint
