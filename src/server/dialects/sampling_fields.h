// The fields that requests of several APIs share: sampling, limits, constraints.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// temperature, top_p ... seed, logit_bias, bad_words, allowed_token_ids.
void read_sampling(RequestReader& r, ApiRequest& request, const ParseContext& context);

// The texts that end an answer.
void read_stops(RequestReader& r, const char* name, ApiRequest& request);

// priority, cache_salt, extra_key.
void read_turn(RequestReader& r, ApiRequest& request, const ParseContext& context);

// The fields of read_turn(), and stop, stop_token_ids, min_tokens, ignore_eos ...
void read_limits(RequestReader& r, ApiRequest& request, const ParseContext& context);

// response_format, structured_outputs, guided_*, regex, ebnf, json_schema, structural_tag, choice.
// At most one.
void read_constraint(RequestReader& r, ApiRequest& request);

// A name of the client's own for its request. It comes back in answers and logs, so that it must be
// harmless (id_source.h).
void read_id(RequestReader& r, const char* name, std::string& out);

// {"type": "text" | "json_object" | "json_schema" | "regex" | "ebnf", ...}; `inner` is the member
// that holds the schema ("json_schema": OpenAI's chat; "": the format itself, as in
// /v1/responses).
void read_response_format(RequestReader& r, const char* inner, ApiRequest& request);

// stream, stream_options, stream_interval, return_token_ids,
// return_tokens_as_token_ids, return_timings.
void read_streaming(RequestReader& r, ApiRequest& request);

// How many tokens of each position are told; -1, as in vLLM: all of the vocabulary.
void read_num_logprobs(RequestReader& r, const char* name, std::optional<int>& out,
                       const ParseContext& context);

// prompt_logprobs.
void read_prompt_logprobs(RequestReader& r, ApiRequest& request, const ParseContext& context);

// return_routed_experts, after `stream` was read.
void read_routed_experts(RequestReader& r, ApiRequest& request);

// n and best_of together with the number of prompts, after all fields were read.
void check_choices(RequestReader& r, ApiRequest& request);

}  // namespace glint
