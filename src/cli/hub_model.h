// MODEL on a command line, once more: an id whose files are not here is fetched from the hub.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/command.h"
#include "hub/pull.h"

namespace glint {

// The part of a model that a command needs.
enum class ModelPart {
  kAll,        // a configuration, weights, a tokenizer
  kText,       // the same without the weights
  kWeights,    // the first two
  kConfig,     // the first
  kTokenizer,  // tokenizer.json
  kTemplate,   // tokenizer_config.json
};

// The directory of `model` as resolve_model() says it. An id that the cache does not hold, or not
// this part of it, is fetched first, unless HF_HUB_OFFLINE is set.
Result<std::string> model_dir(const std::string& model, const Cli& cli,
                              ModelPart part = ModelPart::kAll);

// Whether weights that the index of a checkpoint in `dir` names are missing, or any at all.
bool lacks_weights(const std::string& dir);

// How to reach the hub of the environment.
HubOptions hub_options(const Cli& cli);

// Fetches with a bar on stderr, after looking at the room on the disk, to the folder that it
// returns. Ctrl-C or SIGTERM ends the program, and keeps what has arrived.
Result<std::string> pull(HubOptions options, PullRequest request, const Cli& cli);

}  // namespace glint
