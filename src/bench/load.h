// The load generator: streamed answers from one server, on one thread. A closed loop: at most
// `concurrency` requests at once, each followed by the next; or an open one: requests come when
// they come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/arrivals.h"
#include "bench/stream_record.h"
#include "bench/summary.h"
#include "bench/workload.h"
#include "net/http_client.h"

namespace glint {

struct LoadTarget {
  std::string server;  // its origin
  HttpClientOptions http = {};
  std::string api_key = {};
  std::string model = {};        // empty: the first that the server lists
  bool chat = false;             // ask /v1/chat/completions, not /v1/completions...
  std::string path = {};         // ...or the same here
  Json fields = Json::Object{};  // of every request, besides what is measured
};

// Whether requests with these fields have one right answer: their temperature is 0. One that they
// leave to the server may be any.
bool is_greedy(const Json& fields);

struct LoadOptions {
  PromptOptions prompts = {};                    // drawn at random, unless there are...
  std::vector<Conversation> conversations = {};  // ...these: num_prompts, then num_warmups of them
  int concurrency = 1;                           // requests at once, at most; 0: any number
  int num_prompts = 32;
  int num_warmups = 0;  // requests before, which are not measured
  Arrivals arrivals = {};
  Goodput goodput = {};
  std::vector<double> percentiles = {};  // of latencies, besides the usual ones
  int num_checked = 8;  // greedy answers that are asked again, alone and whole, and compared
  // With how many have come since the last call; often while none comes, too.
  std::function<void(int count)> on_answers = {};
};

// Steps of the server's engine during the run; only glint reports them.
struct EngineShare {
  bool known = false;
  std::int64_t steps = 0;
  double step_ms = 0;      // of a step, in the model
  double overhead_us = 0;  // of a step, between two
};

struct LoadResult {
  LoadSummary summary = {};
  std::vector<StreamRecord> records = {};  // in the order in which they were sent
  EngineShare engine = {};
  double client_cpu = 0;  // share of one core that the generator used
  Distribution lag_ms =
      {};                 // how late the generator's own timers were: what its times are good for
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
  // Asks for the model's name. Fails if the server does not answer, or if it lists none and the
  // target names none.
  static Result<LoadGenerator> connect(LoadTarget target, int max_connections);

  const std::string& model() const { return target_.model; }
  LoadResult run(const LoadOptions& options);
  LongPromptResult run_long_prompts(const LongPromptOptions& options);

 private:
  class Run;

  explicit LoadGenerator(LoadTarget target) : target_(std::move(target)) {}

  HttpHeaders headers() const;
  std::string path() const {
    if (!target_.path.empty()) return target_.path;
    return target_.chat ? "/v1/chat/completions" : "/v1/completions";
  }
  std::string body(Json asked, int output_len, bool stream) const;
  std::string body(const PromptOptions& prompts, int index, bool stream) const;
  // Tokens that an answer of `length` must have; 0 if it may end before.
  std::int64_t wanted(int length) const;
  Json get(const std::string& path);  // null if there is nothing
  EngineShare engine_since(const Json& before);
  void stream(std::string body, std::int64_t want_tokens, StreamRecord& record,
              std::function<bool()> go_on, std::function<void()> then);
  void read_pieces();
  void compare(const LoadOptions& options, LoadResult& result);

  // Bytes of a stream, and when they came.
  struct Piece {
    std::shared_ptr<StreamReader> reader;
    BenchClock::time_point at;
    std::string bytes;
  };

  LoadTarget target_;
  std::unique_ptr<HttpClient> client_;
  std::vector<Piece> pieces_;  // that came and are not read
};

}  // namespace glint
