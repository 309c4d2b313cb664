#include "bench/load.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "base/seconds.h"
#include "base/str.h"
#include "net/error_body.h"

namespace glint {
namespace {

constexpr double kProbeSeconds = 0.01;

double number(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value && value->is_number() ? value->as_double() : 0;
}

std::vector<std::int64_t> token_ids_of(const Json& answer) {
  std::vector<std::int64_t> out;
  const Json* choices = answer.find("choices");
  if (!choices || !choices->is_array() || choices->as_array().empty()) return out;
  const Json* ids = choices->as_array().front().find("token_ids");
  if (!ids || !ids->is_array()) return out;
  for (const Json& id : ids->as_array()) {
    if (id.is_int()) out.push_back(id.as_int());
  }
  return out;
}

}  // namespace

bool is_greedy(const Json& fields) {
  const Json* temperature = fields.find("temperature");
  return temperature && temperature->is_number() && temperature->as_double() == 0;
}

Result<LoadGenerator> LoadGenerator::connect(LoadTarget target, int max_connections) {
  LoadGenerator out(std::move(target));
  out.target_.http.max_connections = max_connections;
  out.client_ = std::make_unique<HttpClient>(out.target_.server, out.target_.http);
  GLINT_TRY(const HttpResponse response, out.client_->look_up("/v1/models", out.headers()));
  if (response.status == 401) return invalid("the server wants an API key: set GLINT_API_KEY");
  if (!out.target_.model.empty()) return out;
  const Result<Json> models = parse_json(response.body);
  const Json* data = models.ok() ? models.value().find("data") : nullptr;
  const Json* id = data && data->is_array() && !data->as_array().empty()
                       ? data->as_array().front().find("id")
                       : nullptr;
  if (response.status != 200 || !id || !id->is_string())
    return invalid(str("the server lists no model: it answers GET /v1/models with ",
                       response.status, "; name one with --model"));
  out.target_.model = id->as_string();
  return out;
}

HttpHeaders LoadGenerator::headers() const {
  HttpHeaders out = {{"content-type", "application/json"}};
  if (!target_.api_key.empty()) out.emplace_back("authorization", "Bearer " + target_.api_key);
  return out;
}

// `asked` is {"prompt": ...} or {"messages": ...}.
std::string LoadGenerator::body(Json asked, int output_len, bool stream) const {
  asked.set("model", target_.model);
  asked.set(target_.chat ? "max_completion_tokens" : "max_tokens", output_len);
  asked.set("stream", stream);
  if (stream) asked.set("stream_options", Json::Object{{"include_usage", true}});
  for (const auto& [name, value] : target_.fields.as_object()) asked.set(name, value);
  return dump_json(asked);
}

std::string LoadGenerator::body(const PromptOptions& prompts, int index, bool stream) const {
  if (target_.chat) {
    Json message(Json::Object{{"role", "user"}, {"content", random_text(prompts, index)}});
    return body(Json::Object{{"messages", Json::Array{std::move(message)}}},
                random_output_len(prompts, index), stream);
  }
  Json::Array ids;
  for (const std::int64_t id : random_prompt(prompts, index)) ids.emplace_back(id);
  return body(Json::Object{{"prompt", std::move(ids)}}, random_output_len(prompts, index), stream);
}

std::int64_t LoadGenerator::wanted(int length) const {
  const Json* ignores = target_.fields.find("ignore_eos");
  return ignores && ignores->is_bool() && ignores->as_bool() ? length : 0;
}

Json LoadGenerator::get(const std::string& path) {
  const Result<HttpResponse> response = client_->look_up(path, headers());
  if (!response.ok() || response.value().status != 200) return {};
  Result<Json> json = parse_json(response.value().body);
  return json.ok() ? std::move(json).value() : Json();
}

EngineShare LoadGenerator::engine_since(const Json& before) {
  const Json after = get("/engine");
  EngineShare out;
  out.steps = static_cast<std::int64_t>(number(after, "steps") - number(before, "steps"));
  out.known = before.is_object() && after.is_object() && out.steps > 0;
  if (!out.known) return out;
  const auto per_step = [&](const char* name) {
    return (number(after, name) - number(before, name)) / static_cast<double>(out.steps);
  };
  out.step_ms = 1e3 * per_step("step_seconds");
  out.overhead_us = 1e6 * per_step("overhead_seconds");
  return out;
}

// One request into `record`, which must stay where it is. `go_on` false ends it early, whole or
// not.
void LoadGenerator::stream(std::string body, std::int64_t want_tokens, StreamRecord& record,
                           std::function<bool()> go_on, std::function<void()> then) {
  auto reader = std::make_shared<StreamReader>(record);
  record.start = BenchClock::now();
  const auto on_piece = [this, reader, go_on](std::string_view piece) {
    if (pieces_.empty()) client_->after(0, [this] { read_pieces(); });
    pieces_.push_back({reader, BenchClock::now(), std::string(piece)});
    return !reader->failed() && go_on();
  };
  const auto on_done = [this, reader, &record, want_tokens, go_on,
                        then = std::move(then)](Result<HttpResponse> response) {
    read_pieces();
    if (!response.ok()) {
      record.failure = response.error().message;
    } else if (response.value().status != 200) {
      record.failure = str("status ", response.value().status, ": ",
                           quoted(error_message(response.value().body), 300));
    } else if (go_on()) {
      reader->finish(want_tokens);
    }
    then();
  };
  client_->start({.method = "POST",
                  .target = path(),
                  .headers = headers(),
                  .body = std::move(body),
                  .on_piece = on_piece,
                  .on_done = on_done});
}

// Pieces wait until no connection has more: where hundreds of streams get a token at once, reading
// one would make the next late.
void LoadGenerator::read_pieces() {
  for (const Piece& piece : std::exchange(pieces_, {})) {
    if (!piece.reader->failed()) piece.reader->feed(piece.bytes, piece.at);
  }
}

// One measurement. A client asks its questions one after the other and keeps its place meanwhile.
class LoadGenerator::Run {
 public:
  Run(LoadGenerator& generator, const LoadOptions& options)
      : generator_(generator),
        options_(options),
        clients_(static_cast<std::size_t>(options.num_prompts)) {}

  // Until every answer is there; how long that took, in seconds.
  double run() {
    const BenchClock::time_point begin = BenchClock::now();
    const std::vector<double> times = arrival_times(options_.arrivals, options_.num_prompts);
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i] > 0) {
        generator_.client_->after(times[i], [this, i] { arrive(i); });
      } else {
        waiting_.push_back(i);
      }
    }
    start_waiting();
    probe();
    generator_.client_->run();
    return seconds_between(begin, last_);
  }

  std::vector<StreamRecord> take_records() {
    return {std::make_move_iterator(records_.begin()), std::make_move_iterator(records_.end())};
  }
  std::vector<double> take_lags() { return std::move(lags_ms_); }

 private:
  struct Client {
    std::size_t turn = 0;
    Json::Array messages = {};
  };

  void arrive(std::size_t client) {
    waiting_.push_back(client);
    start_waiting();
  }

  void start_waiting() {
    while (!waiting_.empty() &&
           (options_.concurrency == 0 || num_running_ < options_.concurrency)) {
      const std::size_t client = waiting_.front();
      waiting_.pop_front();
      ++num_running_;
      ask(client);
    }
  }

  void ask(std::size_t client) {
    StreamRecord& record = records_.emplace_back();
    const int index = static_cast<int>(client);
    const bool random = options_.conversations.empty();
    const int length =
        random ? random_output_len(options_.prompts, index) : turn_of(client).output_len;
    std::string body = random ? generator_.body(options_.prompts, index, true)
                              : generator_.body(question_of(client), length, true);
    generator_.stream(
        std::move(body), generator_.wanted(length), record, [] { return true; },
        [this, client, &record] { answered(client, record); });
  }

  const Question& turn_of(std::size_t client) const {
    return options_.conversations[client][clients_[client].turn];
  }

  Json question_of(std::size_t client) {
    const std::string& text = turn_of(client).text;
    if (!generator_.target_.chat) return Json::Object{{"prompt", text}};
    Json::Array& messages = clients_[client].messages;
    messages.push_back(Json::Object{{"role", "user"}, {"content", text}});
    return Json::Object{{"messages", messages}};
  }

  void answered(std::size_t client, const StreamRecord& record) {
    last_ = BenchClock::now();
    Client& state = clients_[client];
    const bool more = record.failure.empty() && !options_.conversations.empty() &&
                      ++state.turn < options_.conversations[client].size();
    if (more) {
      state.messages.push_back(Json::Object{{"role", "assistant"}, {"content", record.text}});
      return ask(client);
    }
    ++num_done_;
    --num_running_;
    if (options_.on_answers) options_.on_answers(1);
    start_waiting();
  }

  // A timer that should ring every kProbeSeconds: by how much it is late.
  void probe() {
    const BenchClock::time_point due = BenchClock::now() + from_seconds(kProbeSeconds);
    generator_.client_->after(kProbeSeconds, [this, due] {
      lags_ms_.push_back(to_ms(BenchClock::now() - due));
      if (options_.on_answers) options_.on_answers(0);
      if (num_done_ < options_.num_prompts) probe();
    });
  }

  LoadGenerator& generator_;
  const LoadOptions& options_;
  std::vector<Client> clients_;
  std::deque<std::size_t> waiting_;   // clients that have come and not begun
  std::deque<StreamRecord> records_;  // whose elements stay where they are
  std::vector<double> lags_ms_;
  int num_running_ = 0, num_done_ = 0;
  BenchClock::time_point last_ = BenchClock::now();
};

LoadResult LoadGenerator::run(const LoadOptions& options) {
  if (options.num_warmups > 0) {
    LoadOptions warm = options;
    warm.num_prompts = warm.num_warmups;
    warm.prompts.seed = ~options.prompts.seed;  // nothing that is remembered when it is measured
    warm.arrivals = {};
    warm.on_answers = {};
    if (!warm.conversations.empty())
      warm.conversations.erase(warm.conversations.begin(),
                               warm.conversations.begin() + options.num_prompts);
    Run(*this, warm).run();
  }
  const Json before = get("/engine");
  Run run(*this, options);
  const double cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  const double seconds = run.run();
  LoadResult out;
  out.client_cpu = (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / seconds;
  out.records = run.take_records();
  out.lag_ms = Distribution::of(run.take_lags());
  out.summary = summarize(out.records, seconds, options.goodput, options.percentiles);
  out.engine = engine_since(before);
  if (options.conversations.empty() && !target_.chat && is_greedy(target_.fields))
    compare(options, out);
  return out;
}

// The order of a stream's tokens: greedy answers, asked again one by one and whole, must be the
// same token for token. The compared ones are spread over the run.
void LoadGenerator::compare(const LoadOptions& options, LoadResult& result) {
  // Where all are sent in the order of their index.
  if (!options.arrivals.are_at_once()) return;
  const int count = std::min(options.num_checked, options.num_prompts);
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<int>(std::int64_t{i} * options.num_prompts / count);
    const StreamRecord& record = result.records[static_cast<std::size_t>(index)];
    if (!record.failure.empty() || record.tokens.empty()) continue;
    const Result<HttpResponse> response =
        client_->send("POST", path(), headers(), body(options.prompts, index, false));
    if (!response.ok() || response.value().status != 200) continue;  // nothing to compare with
    const Result<Json> json = parse_json(response.value().body);
    ++result.num_compared;
    if (!json.ok() || token_ids_of(json.value()) != record.tokens) ++result.num_different;
  }
}

}  // namespace glint
