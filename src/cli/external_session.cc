#include "cli/external_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/seconds.h"
#include "base/str.h"
#include "net/error_body.h"
#include "net/sse_reader.h"
#include "train/train_sequence.h"

namespace glint {
namespace {

constexpr double kTickSeconds = 0.1;
// A server says every ten seconds that it is there. One that is silent for longer than all may be
// away, but for this at least and at most, is left out.
constexpr double kLeastSilence = 15, kMostSilence = 60;
constexpr int kMaxFailures = 10;  // of one request, before it is given up
// A piece holds all before it: with so many an answer comes some eight times.
constexpr int kPieces = 16, kMinInterval = 16;

}  // namespace

ExternalSession::ExternalSession(ExternalEngines& engines, const RolloutSize& size)
    : engines_(engines),
      size_(size),
      name_(str("rollout-", ::getpid(), "-", Clock::now().time_since_epoch().count())),
      client_(engines.client(size.running)) {
  for (Server& server : engines_.servers_) {
    server.running = 0;
    server.is_looked_at = false;
  }
}

Status ExternalSession::submit(Request request) {
  const RequestId id = request.id;
  const ModelConfig& config = engines_.config();
  Ask ask = {.limits = {.prompt_tokens = static_cast<int>(request.prompt.size()),
                        .max_tokens = request.max_tokens,
                        .num_token_ids = size_.num_token_ids,
                        .weight_version = engines_.version_,
                        .routes = request.want.routed_experts,
                        .num_layers = static_cast<int>(config.num_hidden_layers),
                        .experts_per_token = static_cast<int>(config.num_experts_per_tok),
                        .num_experts = static_cast<int>(config.n_routed_experts),
                        .moe_layers = config.moe_layers()}};
  ask.request = std::move(request);
  asks_.emplace(id, std::move(ask));
  waiting_.push_back(id);
  return Ok{};
}

void ExternalSession::abort(RequestId id) {
  const auto found = asks_.find(id);
  if (found == asks_.end() || found->second.is_aborted) return;
  Ask& ask = found->second;
  ask.is_aborted = true;
  // Its last event, and the experts of its rows, come with the end of its stream.
  if (ask.server) {
    client_.start(
        engines_.exchange(*ask.server, "POST", "/abort_request", Json::Object{{"rid", ask.rid}}));
  }
}

Status ExternalSession::run(const OnEvents& on_events) {
  on_events_ = &on_events;
  const std::function<void()> again = [&] {
    tick();
    if (!is_over_) client_.after(kTickSeconds, again);
  };
  again();
  client_.run();
  if (failure_) return *failure_;
  return Ok{};
}

void ExternalSession::tick() {
  const auto now = Clock::now();
  for (Server& server : engines_.servers_) {
    if (server.is_up) someone_up_ = now;
    if (!server.is_up && !server.is_looked_at && now >= server.look) look_after(server);
  }
  if (seconds_between(someone_up_, now) > engines_.options_.seconds) {
    return fail(engines_.nobody_answers());
  }
  fill();
  deliver({});
}

// Whether it is there again, with the weights of this session.
void ExternalSession::look_after(Server& server) {
  server.is_looked_at = true;
  engines_.bring_up(client_, server, [this, &server](const Status& status) {
    server.is_looked_at = false;
    server.look = Clock::now() + from_seconds(kServerRetrySeconds);
    server.is_up = status.ok() && server.max_model_len >= size_.longest;
    if (server.is_up) {
      engines_.tell(server.origin + " answers again");
      return fill();
    }
    server.why =
        status.ok() ? server.origin + " takes shorter requests only" : status.error().message;
  });
}

ExternalEngines::Server* ExternalSession::choose(const Request& request) {
  const auto has_room = [&](const Server& server) {
    return server.is_up && server.running < size_.running;
  };
  // Answers to one prompt share what is computed of it.
  if (last_server_ && has_room(*last_server_) && request.prompt == last_prompt_) {
    return last_server_;
  }
  Server* best = nullptr;
  for (Server& server : engines_.servers_) {
    if (has_room(server) && (!best || server.running < best->running)) best = &server;
  }
  last_prompt_ = request.prompt;
  return last_server_ = best;
}

void ExternalSession::fill() {
  while (!waiting_.empty() && !is_over_) {
    const RequestId id = waiting_.front();
    Ask& ask = asks_.at(id);
    if (ask.is_aborted && (!ask.limits.routes || ask.tokens.empty())) {
      waiting_.pop_front();
      asks_.erase(id);
      deliver({{.id = id, .finished = FinishReason::kCancelled}});
      continue;
    }
    Server* const server = choose(ask.request);
    if (!server) return;
    waiting_.pop_front();
    send(id, ask, *server);
  }
}

void ExternalSession::send(RequestId id, Ask& ask, Server& server) {
  const int attempt = ++ask.attempts;
  ask.server = &server;
  ask.rid = str(name_, "-", id, "-", attempt);
  ask.bytes = 0;
  ++server.running;
  const auto its = [this, id, attempt]() -> Ask* {
    const auto found = asks_.find(id);
    const bool is_its = found != asks_.end() && found->second.server &&
                        found->second.attempts == attempt && !is_over_;
    return is_its ? &found->second : nullptr;
  };
  // One that was to be stopped lacks only what comes with its end.
  Request request = ask.request;
  if (ask.is_aborted) request.max_tokens = static_cast<int>(ask.tokens.size());
  const int interval = std::max(kMinInterval, request.max_tokens / kPieces);
  HttpClient::Exchange exchange =
      engines_.exchange(server, "POST", "/generate", generate_body(request, ask.rid, interval));
  exchange.read_seconds = std::clamp(engines_.options_.seconds, kLeastSilence, kMostSilence);
  const auto reader = std::make_shared<SseReader>(
      [this, its, id](std::string_view, std::string_view data) {
        Ask* const ask = its();
        if (!ask || data == "[DONE]") return true;
        const Status status = take(id, *ask, data);
        if (!status.ok()) fail(status.error());
        return true;
      },
      ask.limits.max_bytes());
  exchange.on_piece = [this, its, reader](std::string_view piece) {
    Ask* const ask = its();
    if (!ask) return true;  // the end of a stream whose answer is there
    ask->bytes += piece.size();
    const std::size_t most = ask->limits.max_bytes();
    const std::string origin = ask->server->origin;
    if (ask->bytes <= most * (kPieces + 2) && reader->feed(piece)) return true;
    fail(invalid(
        str(origin, " sends more for an answer than it can have, ", most, " bytes a piece")));
    return false;
  };
  exchange.on_done = [this, its, id](Result<HttpResponse> answer) {
    if (its()) end_exchange(id, std::move(answer));
  };
  ask.exchange = client_.start(std::move(exchange));
}

// Its stream is at an end, and the answer is not.
void ExternalSession::end_exchange(RequestId id, Result<HttpResponse> answer) {
  Ask& ask = asks_.at(id);
  const std::string& origin = ask.server->origin;
  if (!answer.ok()) return lose(id, ask, answer.error().message);
  const Status status = status_of(answer.value());
  if (status.ok()) return lose(id, ask, origin + " ends an answer before its end");
  const std::string why = str(origin, " ", status.error().message);
  if (status.error().code != ErrorCode::kUnavailable) return fail(invalid(why));
  const bool is_busy = answer.value().status == 429 || answer.value().status == 503;
  lose(id, ask, why);
  if (is_busy) --ask.failures;
}

void ExternalSession::leave(Ask& ask) {
  --ask.server->running;
  ask.server = nullptr;
}

void ExternalSession::lose(RequestId id, Ask& ask, const std::string& why) {
  Server& server = *ask.server;
  client_.cancel(ask.exchange);
  leave(ask);
  if (++ask.failures == kMaxFailures) {
    return fail(unavailable(
        str("a request has failed ", kMaxFailures, " times; see the log of the server: ", why)));
  }
  waiting_.push_front(id);
  if (!server.is_up) return;
  server.is_up = false;
  server.why = why;
  server.look = Clock::now() + from_seconds(kServerRetrySeconds);
  engines_.tell(str("its requests wait or go to others: ", why));
}

Status ExternalSession::take(RequestId id, Ask& ask, std::string_view data) {
  const std::string origin = ask.server->origin;
  if (data.starts_with("{\"error\"")) {
    return lose(id, ask, str(origin, " fails: ", error_message(data))), Ok{};
  }
  GLINT_TRY(const AnswerPiece piece, parse_answer_piece(data, ask.limits).in(origin));
  const std::size_t known = std::min(ask.tokens.size(), piece.tokens.size());
  if (!std::equal(ask.tokens.begin(), ask.tokens.begin() + static_cast<std::ptrdiff_t>(known),
                  piece.tokens.begin()) ||
      std::memcmp(ask.log_probs.data(), piece.log_probs.data(), known * sizeof(float)) != 0) {
    return invalid(str(origin,
                       " answers a request otherwise than it was answered before; servers "
                       "of one build, dtype and layout give the same"));
  }
  TokenEvent event = {.id = id, .finished = piece.finished};
  for (std::size_t i = known; i < piece.tokens.size(); ++i) {
    event.tokens.push_back(piece.tokens[i]);
    event.logprobs.push_back({.logprob = piece.log_probs[i]});
  }
  ask.tokens.insert(ask.tokens.end(), event.tokens.begin(), event.tokens.end());
  ask.log_probs.insert(ask.log_probs.end(),
                       piece.log_probs.begin() + static_cast<std::ptrdiff_t>(known),
                       piece.log_probs.end());
  if (!piece.finished) {
    if (!event.tokens.empty()) deliver({std::move(event)});
    return Ok{};
  }
  // Stopped by somebody else, or by the end of the server.
  const bool is_short = piece.tokens.size() < ask.tokens.size();
  if (piece.finished == FinishReason::kCancelled && (!ask.is_aborted || is_short)) {
    return lose(id, ask, origin + " has stopped an answer"), Ok{};
  }
  if (is_short) {
    return invalid(str(origin, " ends an answer after ", piece.tokens.size(), " tokens that had ",
                       ask.tokens.size(), " before"));
  }
  if (ask.is_aborted && ask.request.max_tokens > std::ssize(piece.tokens) &&
      piece.finished == FinishReason::kLength) {
    event.finished = FinishReason::kCancelled;
  }
  event.extras.routed_experts = piece.routes;
  event.usage.cached_tokens = piece.cached_tokens;
  leave(ask);
  asks_.erase(id);
  deliver({std::move(event)});
  fill();
  return Ok{};
}

void ExternalSession::deliver(std::vector<TokenEvent> events) {
  if (is_over_) return;
  const Result<bool> goes_on = (*on_events_)(std::move(events));
  if (!goes_on.ok()) return fail(goes_on.error());
  if (goes_on.value()) return;
  is_over_ = true;
  client_.stop();
}

void ExternalSession::fail(Error error) {
  if (is_over_) return;
  failure_ = std::move(error);
  is_over_ = true;
  client_.stop();
}

}  // namespace glint
