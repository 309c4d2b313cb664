#include "bench/load.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

double cpu_seconds() {
  rusage use = {};
  getrusage(RUSAGE_THREAD, &use);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

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

std::vector<std::int64_t> random_prompt(const PromptOptions& options, int index) {
  Random random(options.seed, static_cast<std::uint64_t>(index));
  std::vector<std::int64_t> ids(static_cast<std::size_t>(options.input_len));
  for (std::int64_t& id : ids) id = random.below(static_cast<std::uint32_t>(options.num_ids));
  return ids;
}

Result<LoadGenerator> LoadGenerator::connect(LoadTarget target, int max_connections) {
  LoadGenerator out(std::move(target));
  GLINT_TRY(out.client_,
            AsyncHttpClient::open(out.target_.server, out.target_.http, max_connections));
  // A blocking client says best what is wrong.
  HttpClient client(out.target_.server, out.target_.http);
  GLINT_TRY(const HttpResponse response, client.send("GET", "/v1/models", out.headers(), ""));
  if (response.status == 401) return invalid("the server wants an API key: set GLINT_API_KEY");
  if (response.status != 200)
    return invalid(str("the server answers GET /v1/models with ", response.status));
  if (!out.target_.model.empty()) return out;
  const Result<Json> models = parse_json(response.body);
  const Json* data = models.ok() ? models.value().find("data") : nullptr;
  const Json* id = data && data->is_array() && !data->as_array().empty()
                       ? data->as_array().front().find("id")
                       : nullptr;
  if (!id || !id->is_string()) return invalid("the server lists no model; name one with --model");
  out.target_.model = id->as_string();
  return out;
}

HttpHeaders LoadGenerator::headers() const {
  HttpHeaders out = {{"content-type", "application/json"}};
  if (!target_.api_key.empty()) out.emplace_back("authorization", "Bearer " + target_.api_key);
  return out;
}

std::string LoadGenerator::body(const PromptOptions& prompts, int index, bool stream) const {
  Json::Array ids;
  for (const std::int64_t id : random_prompt(prompts, index)) ids.emplace_back(id);
  Json json(Json::Object{{"model", target_.model},
                         {"prompt", std::move(ids)},
                         {"max_tokens", prompts.output_len},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"return_token_ids", true},
                         {"stream", stream}});
  if (stream) json.set("stream_options", Json::Object{{"include_usage", true}});
  return dump_json(json);
}

Json LoadGenerator::get(const std::string& path) {
  Json out;
  client_->send({.path = path, .headers = headers(), .on_done = [&](Result<HttpResponse> response) {
                   if (!response.ok() || response.value().status != 200) return;
                   if (Result<Json> json = parse_json(response.value().body); json.ok())
                     out = std::move(json).value();
                 }});
  client_->run();
  return out;
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
  const auto on_piece = [reader, go_on](std::string_view piece) {
    return reader->feed(piece, BenchClock::now()) && go_on();
  };
  const auto on_done = [reader, &record, want_tokens, go_on,
                        then = std::move(then)](Result<HttpResponse> response) {
    if (!response.ok()) {
      record.failure = response.error().message;
    } else if (response.value().status != 200) {
      record.failure =
          str("status ", response.value().status, ": ", quoted(response.value().body, 300));
    } else if (go_on()) {
      reader->finish(want_tokens);
    }
    then();
  };
  client_->send({.method = "POST",
                 .path = "/v1/completions",
                 .headers = headers(),
                 .body = std::move(body),
                 .on_piece = on_piece,
                 .on_done = on_done});
}

LoadResult LoadGenerator::run(const LoadOptions& options) {
  const Json before = get("/engine");
  std::vector<StreamRecord> records(static_cast<std::size_t>(options.num_prompts));
  int next = 0;
  const std::function<void()> send_next = [&] {
    if (next >= options.num_prompts) return;
    const int index = next++;
    stream(
        body(options.prompts, index, true), options.prompts.output_len,
        records[static_cast<std::size_t>(index)], [] { return true; },
        [&] {
          if (options.on_answer) options.on_answer();
          client_->after(0, send_next);  // later: the connection of the answer is free then
        });
  };
  const double cpu = cpu_seconds();
  const BenchClock::time_point begin = BenchClock::now();
  for (int i = 0; i < options.concurrency; ++i) send_next();
  client_->run();
  const double wall = seconds_since(begin);
  LoadResult out;
  out.client_cpu = (cpu_seconds() - cpu) / wall;
  out.summary = summarize(records, wall);
  out.engine = engine_since(before);
  compare(options, records, out);
  return out;
}

// The order of a stream's tokens: greedy answers, asked again one by one and whole, must be the
// same token for token. The compared ones are spread over the run.
void LoadGenerator::compare(const LoadOptions& options, const std::vector<StreamRecord>& records,
                            LoadResult& result) {
  const int count = std::min(options.num_checked, options.num_prompts);
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<int>(std::int64_t{i} * options.num_prompts / count);
    const StreamRecord& record = records[static_cast<std::size_t>(index)];
    if (!record.failure.empty() || record.tokens.empty()) continue;
    std::vector<std::int64_t> whole;
    client_->send({.method = "POST",
                   .path = "/v1/completions",
                   .headers = headers(),
                   .body = body(options.prompts, index, false),
                   .on_done = [&](Result<HttpResponse> response) {
                     if (!response.ok() || response.value().status != 200) return;
                     const Result<Json> json = parse_json(response.value().body);
                     if (json.ok()) whole = token_ids_of(json.value());
                   }});
    client_->run();
    ++result.num_compared;
    if (whole != record.tokens) ++result.num_different;
  }
}

}  // namespace glint
