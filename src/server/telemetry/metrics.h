// Metrics: what the server counts and times, in Prometheus' text format under the names of vLLM or
// of SGLang, so that existing dashboards and autoscalers work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/answer.h"
#include "server/server_config.h"

namespace glint {

// One finished request that generated, for metrics, log and traces.
struct RequestRecord {
  std::string id = {}, model = {};
  int status = 200;
  std::string error = {};               // why it failed
  TokenEvent::Usage usage = {};         // Answer::usage
  std::vector<int> answer_tokens = {};  // of the choices
  int n = 1;
  int max_tokens = 0;  // that an answer may have
  double temperature = 0, top_p = 0;
  bool stream = false, constrained = false;
  std::vector<std::string> finish_reasons = {};  // of the choices: stop, length, abort, error
  // Seconds: from its arrival to the first token that was sent; in the queue, from there to the
  // first token, from there to the end (of the engine); in all.
  double first_token_s = 0, queue_s = 0, prefill_s = 0, decode_s = 0, total_s = 0;

  // The engine tells no times of a request whose client left, or that failed.
  bool is_timed() const { return status == 200; }
};

class Metrics {
 public:
  Metrics(MetricsDialect dialect, const std::string& model_name);
  ~Metrics();

  // All from any thread.
  void http_response(const std::string& method, const std::string& route, int status);
  void http_duration(const std::string& method, const std::string& route, double seconds);
  void first_token(double seconds);
  void token_gap(double seconds);
  void step(int tokens);  // of prompts and answers, that one step came to
  void request_done(const RequestRecord& record);

  // The page for /metrics. `experts`: where they lie, if they move.
  std::string text(const EngineStats& stats, const std::optional<ExpertPlaces>& experts = {});
  static const char* content_type();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
