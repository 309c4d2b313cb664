// Flags of `glint bench serve`: the fields that all requests have.
#pragma once

#include <optional>
#include <string>

#include "net/http_client.h"

namespace glint {

struct RequestFlags {
  std::string backend = "openai", model;
  std::optional<bool> ignore_eos;
  bool token_ids = true;
  std::string tools, extra_body, ca_file, tokenizer;
  bool trust_remote_code = false;
  double timeout = HttpClientOptions().read_seconds;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Requests");
    v("backend,endpoint-type", backend,
      "completions or, with -chat, chat completions, by the names of vLLM's and SGLang's "
      "benchmarks; all of a kind ask the same",
      {"openai", "openai-chat", "vllm", "vllm-chat", "sglang-oai", "sglang-oai-chat"});
    v("model", model, "the model's name (default: the first that the server lists)");
    v("ignore-eos", ignore_eos,
      "answers have exactly the length that was asked for (default: unless requests have tools, "
      "since a call ends an answer)");
    v("token-ids", token_ids, "ask for the ids of tokens, which show what drafts bring");
    v("tools=FILE", tools, "JSON list of tools that every request of a chat has");
    v("extra-body,extra-request-body=JSON", extra_body,
      "fields of every request, such as '{\"top_p\": 0.9}'; they replace what options say");
    v("timeout=SECONDS", timeout, "a request fails of which nothing comes for so long");
    v("tokenizer=NAME", tokenizer, "read and not used: the server counts tokens");
    v("trust-remote-code", trust_remote_code, "read and not used: no code is fetched");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust (default: this machine's)");
  }
};

struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<double> frequency_penalty, presence_penalty, repetition_penalty;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Sampling, left to the server where no value is given");
    v("temperature=X", temperature,
      "of every request (default: 0, unless --extra-body says another, or null for the server's)");
    v("top-p=X", top_p, "from the likeliest tokens that make up this probability");
    v("top-k=N", top_k, "from this many of the likeliest tokens");
    v("min-p=X", min_p, "from tokens of at least this share of the likeliest one's probability");
    v("frequency-penalty=X", frequency_penalty, "for each time that a token was in the answer");
    v("presence-penalty=X", presence_penalty, "for tokens that were in the answer");
    v("repetition-penalty=X", repetition_penalty, "for tokens of the prompt and the answer");
  }
};

}  // namespace glint
