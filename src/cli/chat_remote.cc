// glint chat with a server, over OpenAI's API.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/json_text.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/chat_source.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "net/error_body.h"
#include "net/http_client.h"
#include "net/sse_reader.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kLookSeconds = 0.05;  // how often Ctrl-C is looked for

// `messages` as the API wants them: the arguments of calls are texts, and calls have ids, which
// their results, in the same order, name.
Json::Array for_wire(const Json::Array& messages) {
  Json::Array out = messages;
  int num_calls = 0, num_results = 0;
  for (Json& message : out) {
    if (*text_of(message, "role") == "tool")
      message.set("tool_call_id", str("call_", num_results++));
    const Json* calls = message.find("tool_calls");
    if (!calls) continue;
    num_results = num_calls;
    Json::Array with_ids = calls->as_array();
    for (Json& call : with_ids) {
      Json function = *call.find("function");
      const Json arguments = *function.find("arguments");
      function.set("arguments", arguments.is_string() ? arguments : dump_json(arguments));
      call.set("function", std::move(function));
      call.set("id", str("call_", num_calls++));
    }
    message.set("tool_calls", std::move(with_ids));
  }
  return out;
}

// The chunks of a streamed answer to deltas.
class ChunkReader {
 public:
  explicit ChunkReader(const ChatSource::OnDeltas& on_deltas)
      : on_deltas_(on_deltas),
        sse_([this](std::string_view, std::string_view data) { return on_event(data); }) {}

  bool feed(std::string_view bytes) { return sse_.feed(bytes); }

  std::string failure;
  bool done = false, cut = false;
  std::int64_t prompt_tokens = 0, tokens = 0;
  Clock::time_point first = {}, last = {};  // of the answer's pieces

 private:
  bool fail(std::string why) {
    failure = std::move(why);
    return false;
  }

  bool on_event(std::string_view data) {
    if (data == "[DONE]") return done = true;
    const Result<Json> parsed = parse_json(data);
    if (!parsed.ok()) return fail("a chunk of the answer is no JSON: " + parsed.error().message);
    const Json& chunk = parsed.value();
    if (const Json* error = chunk.find("error"); error && !error->is_null())
      return fail(message_of_error(chunk));
    if (const Json* usage = chunk.find("usage"); usage && usage->is_object()) {
      read_count(*usage, "prompt_tokens", prompt_tokens);
      read_count(*usage, "completion_tokens", tokens);
    }
    const Json* choices = chunk.find("choices");
    if (!choices || !choices->is_array() || choices->as_array().empty()) return true;
    const Json& choice = choices->as_array().front();
    if (const std::string* reason = text_of(choice, "finish_reason")) cut = *reason == "length";
    if (const Json* delta = choice.find("delta")) {
      last = Clock::now();
      if (first == Clock::time_point{}) first = last;
      return read_delta(*delta);
    }
    return true;
  }

  static void read_count(const Json& usage, const char* name, std::int64_t& out) {
    const Json* count = usage.find(name);
    if (count && count->is_int()) out = count->as_int();
  }

  bool read_delta(const Json& delta) {
    std::vector<Delta> deltas;
    const std::string* reasoning = text_of(delta, "reasoning_content");
    if (!reasoning) reasoning = text_of(delta, "reasoning");
    if (reasoning && !reasoning->empty()) deltas.push_back({Delta::Kind::kReasoning, *reasoning});
    const std::string* content = text_of(delta, "content");
    if (content && !content->empty()) deltas.push_back({Delta::Kind::kContent, *content});
    const Json* calls = delta.find("tool_calls");
    if (calls && calls->is_array()) {
      for (const Json& call : calls->as_array()) {
        if (!read_call(call, deltas)) return fail("a tool call of the answer has no name");
      }
    }
    if (!deltas.empty()) on_deltas_(deltas);
    return true;
  }

  bool read_call(const Json& call, std::vector<Delta>& deltas) {
    const Json* function = call.find("function");
    if (!function) return true;
    // Some servers repeat an empty name with each piece of the arguments.
    const std::string* name = text_of(*function, "name");
    const bool begins = name && !name->empty();
    if (begins) deltas.push_back({Delta::Kind::kToolBegin, *name, num_calls_++});
    if (num_calls_ == 0) return false;
    const Json* index = call.find("index");
    const bool says = !begins && index && index->is_int() && index->as_int() >= 0;
    const std::int64_t last = num_calls_ - 1, at = says ? std::min(index->as_int(), last) : last;
    const std::string* arguments = text_of(*function, "arguments");
    if (arguments && !arguments->empty())
      deltas.push_back({Delta::Kind::kToolArguments, *arguments, static_cast<int>(at)});
    return true;
  }

  const ChatSource::OnDeltas& on_deltas_;
  SseReader sse_;
  int num_calls_ = 0;
};

std::string describe_speed(const ChunkReader& answer, Clock::time_point start) {
  if (answer.tokens < 2 || answer.last <= answer.first) return "";
  return formatted(
      "%s, the first token after %.2f s, %lld at %.1f/s",
      counted(answer.prompt_tokens, "prompt token").c_str(), seconds_between(start, answer.first),
      static_cast<long long>(answer.tokens),
      static_cast<double>(answer.tokens - 1) / seconds_between(answer.first, answer.last));
}

class RemoteChat : public ChatSource {
 public:
  RemoteChat(std::string server, HttpClientOptions http, HttpHeaders headers, Json request)
      : server_(std::move(server)),
        http_(std::move(http)),
        headers_(std::move(headers)),
        request_(std::move(request)) {}

  Result<End> answer(const Json::Array& messages, const OnDeltas& on_deltas) override {
    HttpClient client(server_, http_);
    Json request = request_;
    request.set("messages", for_wire(messages));
    ChunkReader reader(on_deltas);
    Result<HttpResponse> response = HttpResponse{};
    bool answered = false;
    client.start({.method = "POST",
                  .target = "/v1/chat/completions",
                  .headers = headers_,
                  .body = dump_json(request),
                  .on_piece = [&](std::string_view piece) { return reader.feed(piece); },
                  .on_done =
                      [&](Result<HttpResponse> done) {
                        response = std::move(done);
                        answered = true;
                      }});
    const InterruptGuard interrupt(InterruptGuard::Hears::kCtrlC);
    const std::function<void()> look = [&] {
      if (answered) return;
      interrupt.interrupted() ? client.stop() : client.after(kLookSeconds, look);
    };
    look();
    const Clock::time_point start = Clock::now();
    client.run();
    if (interrupt.interrupted()) return End{.stopped = true};
    return end_of(std::move(response), reader, start);
  }

 private:
  static Result<End> end_of(Result<HttpResponse> response, const ChunkReader& reader,
                            Clock::time_point start) {
    if (!response.ok()) return std::move(response).take_error();
    if (response.value().status != 200) {
      const Result<Json> body = parse_json(response.value().body);
      return invalid(
          str("the server refuses (", response.value().status,
              "): ", body.ok() ? message_of_error(body.value()) : quoted(response.value().body)));
    }
    if (!reader.failure.empty()) return invalid(reader.failure);
    if (!reader.done) return invalid("the server's answer ended early");
    if (reader.first == Clock::time_point{}) return invalid("the server's answer is empty");
    return End{.cut = reader.cut, .speed = describe_speed(reader, start)};
  }

  const std::string server_;
  const HttpClientOptions http_;
  const HttpHeaders headers_;
  const Json request_;  // all but the messages
};

// How a model is run is decided where it runs.
Status check_local_options(const ChatOptions& options, const OptionList& list) {
  const auto refuse = [](bool given, std::string_view name) -> Status {
    if (!given) return Ok{};
    return invalid(str(name, " is for a model that runs here; give it to the server"));
  };
  const std::string running = first_given<RunOptions>(list);
  GLINT_TRY_STATUS(refuse(!running.empty(), running));
  GLINT_TRY_STATUS(refuse(!options.spec.empty(), "--spec"));
  const std::string layout = first_given<LayoutOptions>(list);
  return refuse(!layout.empty(), layout);
}

Json request_of(const ChatOptions& options, const std::string& model, Json tools) {
  Json request(Json::Object{{"model", model},
                            {"stream", true},
                            {"stream_options", Json::Object{{"include_usage", true}}}});
  const auto set = [&](const char* name, const auto& value) {
    if (value) request.set(name, *value);
  };
  set("temperature", options.temperature);
  set("top_p", options.top_p);
  set("top_k", options.top_k);
  set("min_p", options.min_p);
  set("repetition_penalty", options.repetition_penalty);
  if (options.seed) request.set("seed", Json::BigNumber{std::to_string(*options.seed)});
  if (options.max_tokens > 0) request.set("max_tokens", options.max_tokens);
  if (!options.thinking)
    request.set("chat_template_kwargs", Json::Object{{"enable_thinking", false}});
  if (!tools.is_null()) request.set("tools", std::move(tools));
  return request;
}

// The first model that the server lists.
Result<std::string> ask_for_model(const std::string& server, const HttpClientOptions& http,
                                  const HttpHeaders& headers) {
  HttpClient client(server, http);
  GLINT_TRY(const HttpResponse response, client.look_up("/v1/models", headers));
  if (response.status == 401)
    return invalid("the server wants an API key: set GLINT_API_KEY to one of its own");
  const Result<Json> body = parse_json(response.body);
  const Json* data = response.status == 200 && body.ok() ? body.value().find("data") : nullptr;
  const bool any = data && data->is_array() && !data->as_array().empty();
  const std::string* id = any ? text_of(data->as_array().front(), "id") : nullptr;
  if (!id)
    return invalid(str("the server lists no model: it answers GET /v1/models with ",
                       response.status, ", ", quoted(response.body)));
  return *id;
}

}  // namespace

Result<std::unique_ptr<ChatSource>> remote_chat(const ChatOptions& options, const OptionList& list,
                                                Json tools, Cli& cli) {
  GLINT_TRY_STATUS(check_local_options(options, list));
  GLINT_TRY_STATUS(check_timeout(options.timeout.value_or(1)));
  GLINT_TRY(std::string server, parse_api_server(options.model));
  HttpClientOptions http = {.read_option = "--timeout",
                            .ca_file = options.ca_file,
                            .ca_option = "--ca-file",
                            .use_proxy = true};
  http.read_seconds = options.timeout.value_or(http.read_seconds);
  HttpHeaders headers = {{"content-type", "application/json"}};
  if (const std::string& key = cli.environment.api_key; !key.empty())
    headers.emplace_back("authorization", "Bearer " + key);
  GLINT_TRY(const std::string model, ask_for_model(server, http, headers));
  if (cli.console.err_is_terminal()) cli.console.note("talking to " + model);
  return std::unique_ptr<ChatSource>(
      std::make_unique<RemoteChat>(std::move(server), std::move(http), std::move(headers),
                                   request_of(options, model, std::move(tools))));
}

}  // namespace glint
