// Files of prompts for `glint calibrate`: texts, conversations or token ids, one a line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace glint {

struct Prompts {
  TokenSequences ids;
  std::vector<int> lines;  // of the file, from 1: where each comes from
  int num_cut = 0;         // prompts longer than `max_tokens`, which became several
};

// A file whose first line that is not blank is a JSON object, or whose name ends in .jsonl or
// .json, is JSONL, and each line an object with one of
//   "text"      special tokens in it are read as such, nothing is added
//   "messages"  rendered through the chat template, with "tools" if given; it ends where an
//               assistant's answer begins unless the last message is one
//   "ids"
// Any other file is text, a prompt a line. Blank lines are skipped. Everything is read and checked
// before anything runs: a wrong line is named. `dir` is the checkpoint's, for its tokenizer and
// template, opened if a line needs them; `vocab` bounds "ids".
struct PromptFile {
  std::string path;
  std::string dir;
  std::int64_t max_tokens = 0;  // of a prompt: longer ones are cut into pieces of that length
  std::int64_t vocab = 0;
};
Result<Prompts> read_prompts(const PromptFile& file);

}  // namespace glint
