// The load generator: streamed completions of random prompts from one server, on one thread. A
// closed loop: `concurrency` clients, each of which sends its next request when its last is
// answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/stream_record.h"
#include "bench/summary.h"
#include "net/async_http_client.h"

namespace glint {

struct LoadTarget {
  Url server;
  HttpClientOptions http = {};
  std::string api_key = {};
  std::string model = {};  // empty: the first that the server lists
};

struct PromptOptions {
  int input_len = 128, output_len = 64;  // tokens
  int num_ids = 1024;      // prompts are drawn from ids below this: plain text in every vocabulary
  std::uint64_t seed = 0;  // other seeds are other prompts
};

struct LoadOptions {
  PromptOptions prompts;
  int concurrency = 1;
  int num_prompts = 32;
  int num_checked = 8;  // answers that are asked again, alone and whole, and compared
  std::function<void()> on_answer = {};  // after each
};

// What the server's engine did meanwhile; only glint tells it.
struct EngineShare {
  bool known = false;
  std::int64_t steps = 0;
  double step_ms = 0;      // of a step, in the model
  double overhead_us = 0;  // of a step, between two
};

struct LoadResult {
  LoadSummary summary;
  EngineShare engine;
  double client_cpu = 0;  // share of one core that the generator used
  int num_compared = 0;   // streams whose tokens were compared with the same answer asked whole...
  int num_different = 0;  // ...and that differ
};

// While `concurrency` streams decode, prompts of `long_len` tokens come one at a time.
struct LongPromptOptions {
  PromptOptions prompts;  // of the streams
  int concurrency = 8;
  int long_len = 2048;
  int repeat = 5;
  double pause_seconds = 1;  // of plain decoding before each
};

struct LongPromptResult {
  int num_failed = 0;
  std::string first_failure = {};
  std::vector<double> prefill_ms;    // each long prompt's time to its only token
  Distribution plain_ms, beside_ms;  // gaps of the streams, alone and while a long prompt is read
};

class LoadGenerator {
 public:
  // Asks for the model's name. Fails if the server does not answer.
  static Result<LoadGenerator> connect(LoadTarget target, int max_connections);

  const std::string& model() const { return target_.model; }
  LoadResult run(const LoadOptions& options);
  LongPromptResult run_long_prompts(const LongPromptOptions& options);

 private:
  explicit LoadGenerator(LoadTarget target) : target_(std::move(target)) {}

  HttpHeaders headers() const;
  std::string body(const PromptOptions& prompts, int index, bool stream) const;
  Json get(const std::string& path);  // null if there is nothing
  EngineShare engine_since(const Json& before);
  void stream(std::string body, std::int64_t want_tokens, StreamRecord& record,
              std::function<bool()> go_on, std::function<void()> then);
  void compare(const LoadOptions& options, const std::vector<StreamRecord>& records,
               LoadResult& result);

  LoadTarget target_;
  std::unique_ptr<AsyncHttpClient> client_;
};

// The token ids of a prompt: a function of the options and its index alone.
std::vector<std::int64_t> random_prompt(const PromptOptions& options, int index);

}  // namespace glint
