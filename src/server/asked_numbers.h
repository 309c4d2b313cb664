// AskedNumbers: the numbers about tokens that a body asks for beside text. A field of it asks for
// millions, each of which is some hundred bytes of memory while an answer is written.
#pragma once

#include <cstdint>

#include "server/api_types.h"
#include "server/errors.h"

namespace glint {

struct Prepared;

// Written on a thread on which all streams wait meanwhile: some hundredths of a second.
inline constexpr std::int64_t kMostNumbersAtOnce = std::int64_t{1} << 14;

struct AskedNumbers {
  std::int64_t prompt_scores = 0, answer_scores = 0;  // log-probabilities
  std::int64_t echoed_scores = 0;                     // of prompts, that begin streams
  std::int64_t experts = 0;

  // Adds the numbers of one of the body's requests, if its answers become as long as they may. A
  // row chooses `row_experts`, in all layers together.
  void add(const ApiRequest& request, const Prepared& prepared, int row_experts);

  // Refuses more than one body may ask for.
  ApiStatus check(Api api) const;
};

// How long the answers of a request that says no length may be for the numbers about their tokens.
int longest_told_answer(const ApiRequest& request, int prompt_tokens, int row_experts);

}  // namespace glint
