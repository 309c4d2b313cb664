#include "server/server.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/contains.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "server/access.h"
#include "server/routes/web_files.h"
#include "server/server_core.h"
#include "server/telemetry/request_log.h"

namespace glint {
namespace {

// Bodies that wait for a request thread; beyond this the server is overloaded.
constexpr int kMaxQueuedBodies = 4096;
// Larger bodies are read on a thread of their own, one at a time: nobody waits for them, and the
// memory that reading takes, some times the body, is that of one.
constexpr std::size_t kLargeBody = std::size_t{1} << 20;
// A value costs 40 bytes: a body of 64 MiB could hold 32 million. Prompts of token ids are many
// values; members are many in conversations alone, whose values are bounded as well (prepare.cc).
constexpr JsonLimits kBodyLimits = {.max_values = std::size_t{1} << 22,
                                    .max_members = std::size_t{1} << 18};

// A request that waits for a thread. Who leaves takes its body along.
class WaitingRequest {
 public:
  explicit WaitingRequest(HttpRequest request) : request_(std::move(request)) {}

  // Nothing: its client left.
  std::optional<HttpRequest> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(request_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<HttpRequest> request_;
};

bool is_json_type(std::string_view header) {
  const std::string type = lower(trimmed(header.substr(0, header.find(';')), " "));
  return type.empty() || type == "application/json" || type.ends_with("+json");
}

Status check_parsers(const ServerConfig& config) {
  const auto known = [](const std::string& name) {
    return name.empty() || name == "glm45" || name == "glm47";
  };
  if (!known(config.parsers.reasoning))
    return invalid(str("there is no reasoning parser ", quoted(config.parsers.reasoning),
                       "; the model's are glm45 and glm47"));
  if (!known(config.parsers.tools))
    return invalid(str("there is no tool parser ", quoted(config.parsers.tools),
                       "; the model's are glm45 and glm47"));
  if (config.served_names.empty()) return invalid("the model has no name to be served under");
  return Ok{};
}

std::int64_t unix_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerConfig config) : core(std::move(config)) {
    add_generate_routes(core, routes);
    add_text_routes(core, routes);
    add_info_routes(core, routes);
    add_control_routes(core, *control_thread, routes);
    request_threads = std::make_unique<TaskThreads>(glint::request_threads(core.config));
    large_thread = std::make_unique<TaskThreads>(1);
  }

  // Answers that are complete still go out, for a second.
  ~Impl() {
    core.state = ServerState::kDraining;
    if (http) http->stop_accepting();
    if (core.generations) core.generations->drain(0);
    // Requests post to control, and connections to all: they end in this order, and stay there.
    request_threads->finish();
    large_thread->finish();
    control_thread->finish();
    await_answers();
    {
      const std::lock_guard lock(end_mutex);
      http.reset();
    }
    core.generations.reset();
  }

  // Until no request runs and every answer has gone out, a second at most.
  void await_answers() const {
    const auto left = [this] {
      Generations* const g = core.opened();
      return (g && g->num_live() > 0) || http->num_connections() > 0;
    };
    for (int i = 0; http && i < 100 && left(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  void handle(HttpRequest request, HttpExchange exchange);
  HttpResponse refuse(const HttpRefusal& refusal);
  RequestContext context_of(const HttpRequest& request, const Route* route);
  void enqueue(const Route& route, HttpRequest request, const Reply& reply);
  void run(const Route& route, HttpRequest request, Reply reply);
  ApiStatus ready_for(const Route& route) const {
    if (!route.needs_model || (route.while_draining && core.opened())) return Ok{};
    return core.ready();
  }

  ServerCore core;
  std::vector<Route> routes;
  std::unique_ptr<TaskThreads> control_thread = std::make_unique<TaskThreads>(1);
  std::unique_ptr<TaskThreads> request_threads, large_thread;
  std::mutex end_mutex;  // held while `http` goes, or by a thread of which it must not go
  std::unique_ptr<HttpServer> http;
};

namespace {

// Methods label counters, which are kept for good: strangers must not be able to make new ones.
std::string known_method(const std::string& method) {
  const bool known = contains(
      {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"}, method);
  return known ? method : "other";
}

}  // namespace

RequestContext Server::Impl::context_of(const HttpRequest& request, const Route* route) {
  RequestContext context;
  context.method = known_method(request.method);
  context.route = route ? route->path : "unknown";
  context.peer = request.peer;
  context.style = error_style(request.path);
  context.request_id =
      harmless_id(request.header("x-request-id")).value_or("req_" + core.ids.hex(24));
  const std::optional<TraceContext> parent =
      parse_trace_context(request.header("traceparent"), request.header("tracestate"));
  context.span = core.ids.span(parent);
  if (parent) context.parent_span_id = parent->span_id;
  context.begin_ns = unix_nanoseconds();
  context.wants_log = core.config.report.log.requests;
  context.want_timings = request.header("x-return-timings") == "1";
  context.headers = {{"x-request-id", context.request_id},
                     {"traceparent", format_traceparent(context.span)},
                     {"x-glint-state", core.state_name()}};
  if (context.style == ErrorStyle::kAnthropic)
    context.headers.emplace_back("request-id", context.request_id);
  if (!route || route->access != RouteAccess::kAdmin)
    for (auto& header : cors_headers(core.config, request))
      context.headers.push_back(std::move(header));
  return context;
}

// On the io thread: the answer to a request that HttpServer itself refuses, and does not time.
HttpResponse Server::Impl::refuse(const HttpRefusal& refusal) {
  std::string allow;
  const Route* route = find_route(routes, refusal.request.method, refusal.request.path, allow);
  const RequestContext context = context_of(refusal.request, route);
  core.metrics->http_response(context.method, context.route, refusal.status);
  log_answer(context, refusal.status, refusal.reason);
  HttpResponse response = error_response({.status = refusal.status, .message = refusal.reason},
                                         context.style, context.request_id);
  response.headers.insert(response.headers.end(), context.headers.begin(), context.headers.end());
  return response;
}

// On the io thread.
void Server::Impl::handle(HttpRequest request, HttpExchange exchange) {
  std::string allow;
  const Route* route = find_route(routes, request.method, request.path, allow);
  auto context = std::make_shared<RequestContext>(context_of(request, route));
  context->begin = std::chrono::steady_clock::now();
  Reply reply(std::move(exchange), std::move(context), core.metrics);
  if (request.method == "OPTIONS" && !allow.empty()) {
    HttpHeaders headers = preflight_headers(core.config, request);
    headers.emplace_back("allow", allow + ", OPTIONS");
    return reply.respond(HttpResponse{.status = 204, .headers = std::move(headers)});
  }
  if (!route && (request.method == "GET" || request.method == "HEAD")) {
    if (HttpResponse page = web_response(request.path); page.status == 200)
      return reply.respond(std::move(page));
  }
  if (!route && !allow.empty())
    return reply.fail(
        {.status = 405, .message = str(request.path, " takes ", allow, " only"), .allow = allow});
  if (!route)
    return reply.fail({.status = 404,
                       .message = str("there is nothing at ", quoted(request.path),
                                      "; /openapi.json lists what there is")});
  if (ApiStatus status = check_access(core.config, *route, request); !status.ok())
    return reply.fail(status.error());
  if (ApiStatus status = ready_for(*route); !status.ok()) return reply.fail(status.error());
  if (request.method == "POST" && !is_json_type(request.header("content-type")))
    return reply.fail(
        {.status = 415,
         .message = str("the content type is ", quoted(request.header("content-type")),
                        "; expected application/json")});
  if (const std::string_view coding = request.header("content-encoding");
      !coding.empty() && lower(coding) != "identity")
    return reply.fail({.status = 415,
                       .message = str("the content encoding is ", quoted(coding),
                                      "; bodies are read as they are, send yours without one")});
  if (route->quick) return route->handle(request, Json(), std::move(reply));
  enqueue(*route, std::move(request), reply);
}

void Server::Impl::enqueue(const Route& route, HttpRequest request, const Reply& reply) {
  TaskThreads& threads = request.body.size() < kLargeBody ? *request_threads : *large_thread;
  if (threads.num_queued() >= kMaxQueuedBodies)
    return Reply(reply).fail({.status = 429,
                              .message = "the server is busy: too many requests wait to be read",
                              .code = "queue_full",
                              .retry_after = 1});
  auto waiting = std::make_shared<WaitingRequest>(std::move(request));
  Reply(reply).on_disconnect([waiting] { waiting->take(); });
  threads.post([this, &route, waiting, reply = Reply(reply)]() mutable {
    std::optional<HttpRequest> taken = waiting->take();
    if (!taken) return;
    // The server may have begun to end while it waited.
    if (ApiStatus status = ready_for(route); !status.ok()) return reply.fail(status.error());
    const bool is_large = taken->body.size() >= kLargeBody;
    reply.guard([&] { run(route, std::move(*taken), reply); });
    if (is_large) release_free_memory();
  });
}

// On a request thread.
void Server::Impl::run(const Route& route, HttpRequest request, Reply reply) {
  Json json(Json::Object{});
  if (route.describe) {
    // Admin requests may come without a body, which then counts as {}.
    const bool empty = request.body.find_first_not_of(" \t\r\n") == std::string::npos;
    if (!empty || route.access != RouteAccess::kAdmin) {
      Result<Json> parsed = parse_json(request.body, kBodyLimits);
      if (!parsed.ok())
        return reply.fail(
            {.message = "the body is no JSON: " + parsed.error().message, .code = "invalid_json"});
      json = std::move(parsed).value();
    }
    request.body = {};
  }
  route.handle(request, json, std::move(reply));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::listen(ServerConfig config) {
  GLINT_TRY_STATUS(check_parsers(config));
  HttpServerOptions options = config.http;
  std::unique_ptr<OtlpExporter> spans;
  if (!config.report.otlp_endpoint.empty()) {
    GLINT_TRY(spans, OtlpExporter::start({.endpoint = config.report.otlp_endpoint}));
  }
  auto impl = std::make_unique<Impl>(std::move(config));
  impl->core.spans = std::move(spans);
  Impl* raw = impl.get();
  options.error_page = [raw](const HttpRefusal& refusal) { return raw->refuse(refusal); };
  GLINT_TRY(impl->http, HttpServer::start(std::move(options),
                                          [raw](HttpRequest request, HttpExchange exchange) {
                                            raw->handle(std::move(request), std::move(exchange));
                                          }));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Status Server::open(ServedModel model) {
  GLINT_CHECK(!impl_->core.generations, "a server opens one model");
  if (model.executor->info().max_seq_len < impl_->core.config.max_model_len)
    return invalid(str("the context is ", impl_->core.config.max_model_len,
                       " tokens, but the model has ", model.executor->info().max_seq_len,
                       " positions"));
  ServerCore& core = impl_->core;
  const auto observe = [&core, tokenizer = model.tokenizer](const RequestRecord& record,
                                                            const RequestContext& context,
                                                            const Answer& answer) {
    core.metrics->request_done(record);
    if (core.spans) core.spans->add(span_of(record, context));
    log_request(core.config.report.log, record, context, answer, tokenizer);
  };
  core.generations =
      std::make_unique<Generations>(core.config, std::move(model), core.metrics, core.ids, observe);
  core.state = ServerState::kReady;
  return Ok{};
}

int Server::port() const { return impl_->http->port(); }

int Server::drain(double seconds) {
  impl_->core.state = ServerState::kDraining;
  return impl_->core.generations ? impl_->core.generations->drain(seconds) : 0;
}

void Server::send_last_answers() {
  const std::lock_guard lock(impl_->end_mutex);
  if (!impl_->http) return;
  impl_->core.state = ServerState::kDraining;
  impl_->http->stop_accepting();
  impl_->await_answers();
}

Status Server::mend() {
  return impl_->core.generations->engine().control({.kind = ExecutorCommand::Kind::kRecover});
}

EngineStats Server::stats() const { return impl_->core.stats(); }

}  // namespace glint
