// Conversations and texts to imitate: JSONL to tokens, each with its part in the loss.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "train/train_sequence.h"

namespace glint {

struct SftFile {
  std::string path;
  std::string dir;                 // of the checkpoint: tokenizer and template
  std::vector<TokenId> ends = {};  // tokens that end an answer; at least one
  std::int64_t max_tokens = 0;     // of a sequence: longer ones are refused
  // Makes the messages of a conversation with `tools` ready for the template: one for each.
  std::function<Result<Json>(const Json& messages, const Json& tools)> prepare = {};
};

struct SftData {
  std::vector<TrainSequence> sequences = {};
  std::uint64_t hash = 0;  // of the file
};

// Each line that is not blank is an object with one of
//   "messages"              the loss is of what assistants say, from where generating would begin
//                           to the token that ends the answer; "weight": 0 leaves a message out.
//                           "tools" and "chat_template_kwargs" reach the template
//   "prompt", "completion"  the loss is of the completion: two texts, or two lists of messages
//   "text"                  all of it
// An end is added where the last answer has none. Fails, naming the line, on anything else, and
// where a template does not write the beginning of a conversation as it writes it in the whole, or
// leaves out thoughts that are to be learnt.
Result<SftData> read_sft_data(const SftFile& file);

}  // namespace glint
