// The requests of a load test: prompts drawn at random, or conversations from a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// How a range ratio is meant; with 0 resp. 1 every length is the same.
enum class RangeDialect {
  kVllm,    // lengths from len * (1 - ratio) to len * (1 + ratio)
  kSglang,  // lengths from len * ratio to len
};

struct PromptOptions {
  int input_len = 128, output_len = 64;      // tokens
  double input_ratio = 0, output_ratio = 0;  // how much each varies
  RangeDialect dialect = RangeDialect::kVllm;
  int prefix_len = 0;      // tokens in common, before the input_len of each
  int num_prefixes = 1;    // prompts take the prefixes in turn
  int num_ids = 1024;      // ids are drawn below this: plain text in every vocabulary
  std::uint64_t seed = 0;  // other seeds are other prompts
};

// The token ids of a prompt, and how many are asked for: functions of the options and `index`
// alone.
std::vector<std::int64_t> random_prompt(const PromptOptions& options, int index);
int random_output_len(const PromptOptions& options, int index);

// A random prompt as text, for chat: a common word for each token, which most tokenizers have
// whole.
std::string random_text(const PromptOptions& options, int index);

struct Question {
  std::string text;
  int output_len = 0;  // tokens at most
};

// A client's questions, one after the other; each is asked with the answers before it.
using Conversation = std::vector<Question>;

// A file of conversations as ShareGPT has them, {"conversations": [{"from": "human", "value": ...},
// {"from": "gpt", "value": ...}, ...]}, or as chat has, {"messages": [{"role": "user", "content":
// ...}, ...]}: a list of them, or one a line. A system's message is left out. `output_len` tokens
// are asked for, or, if it is 0, as many as the file's answer has letters / 4. At most `max_turns`
// questions of each; those without a question and an answer are left out. In an order that `seed`
// draws; never empty.
Result<std::vector<Conversation>> read_sharegpt(const std::string& path, int output_len,
                                                int max_turns, std::uint64_t seed);

}  // namespace glint
