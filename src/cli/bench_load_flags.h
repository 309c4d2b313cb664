// Flags of `glint bench serve`: when requests come, and how long they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glint {

struct LoadFlags {
  std::vector<int> concurrency;
  std::optional<std::string> request_rate;
  double burstiness = 1, ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::string ramp_up_strategy = "none";
  std::optional<int> num_prompts;
  int num_warmups = 0;
  std::vector<std::string> goodput;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Load");
    v("concurrency,c,max-concurrency=N,...", concurrency,
      "requests at once, at most; several are measured one after the other (default: "
      "1,8,64,256,1024; with --request-rate or a ramp any number; beside long prompts 8)");
    v("request-rate=X", request_rate,
      "requests come at this rate per second; inf: all at once, or -c of them (default: inf)");
    v("burstiness=X", burstiness,
      "shape of the gaps between them: 1 is a Poisson process, less is burstier, more is more "
      "even");
    v("ramp-up-strategy", ramp_up_strategy, "how the rate goes from its start to its end",
      {"none", "linear", "exponential"});
    v("ramp-up-start-rps=X", ramp_up_start_rps, "rate at the first request");
    v("ramp-up-end-rps=X", ramp_up_end_rps, "rate at the last");
    v("num-prompts=N", num_prompts,
      "requests of each measurement (default: two for each that runs at once, at least 32; with a "
      "rate 100)");
    v("num-warmups,warmup-requests=N", num_warmups,
      "requests before each measurement, which do not count");
    v("goodput=METRIC:MS", goodput,
      "count answers within these limits, of ttft, tpot and e2el: ttft:500 tpot:50");
  }
};

struct PromptFlags {
  std::string dataset_name = "random", dataset_path;
  std::optional<int> input_len, output_len;
  std::optional<std::string> random_range_ratio;
  std::string range_dialect = "vllm";
  int random_prefix_len = 0, num_prefixes = 1, max_turns = 1;
  std::optional<int> vocab;
  std::uint64_t seed = 0;
  std::optional<int> check;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Prompts");
    v("dataset-name", dataset_name, "prompts drawn at random, or a file of conversations",
      {"random", "sharegpt"});
    v("dataset-path=FILE", dataset_path,
      "the file: conversations of ShareGPT or messages of chat, a JSON list or one a line");
    v("input-len,random-input-len=N", input_len,
      "tokens of a prompt drawn at random, words where --backend is a chat (default: 128)");
    v("output-len,random-output-len,sharegpt-output-len=N", output_len,
      "tokens of an answer (default: 64, beside long prompts 1024, of a file what its answers "
      "have)");
    v("random-range-ratio=X", random_range_ratio,
      "how much lengths vary, as --range-dialect means it, or '{\"input\": X, \"output\": Y}' "
      "(default: not at all)");
    v("range-dialect", range_dialect,
      "vllm: from len*(1-X) to len*(1+X); sglang: from len*X to len", {"vllm", "sglang"});
    v("random-prefix-len=N", random_prefix_len,
      "tokens that prompts have in common, before their own");
    v("num-prefixes=N", num_prefixes, "how many such beginnings there are");
    v("vocab=N", vocab, "draw tokens from ids below this (default: 1024)");
    v("max-turns=N", max_turns,
      "questions of a conversation, each asked with the answers before it, in a chat");
    v("seed", seed, "other seeds are other prompts and times");
    v("check=N", check,
      "ask so many answers again, alone and not streamed, and compare their tokens (default: 8; 0 "
      "where prompts are text or come at a rate, or the temperature is not 0)");
  }
};

struct LongPromptFlags {
  int long_prompt = 0, repeat = 5;
  double pause = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Long prompts");
    v("long-prompt=N", long_prompt,
      "instead: let streams decode, send prompts of N tokens one at a time, and compare the gaps "
      "between tokens with those of plain decoding");
    v("repeat=N", repeat, "how many long prompts");
    v("pause=SECONDS", pause, "plain decoding before each");
  }
};

}  // namespace glint
