#include "cli/external_engines.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/contains.h"
#include "base/cut_text.h"
#include "base/json_text.h"
#include "base/seconds.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/checksum.h"
#include "cli/external_session.h"
#include "net/error_body.h"
#include "net/server_url.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr double kLookSeconds = 0.1;  // how often is looked whether the run goes on
constexpr double kInfoSeconds = 10;   // that a server may take to say what it is
constexpr std::size_t kMaxBody = std::size_t{1} << 20;

}  // namespace

Status status_of(const HttpResponse& response) {
  if (response.status == 200) return Ok{};
  std::string said =
      str("answers with status ", response.status, ": ", error_message(response.body));
  if (response.status == 401 || response.status == 403) {
    said += "; GLINT_API_KEY is the key that is sent";
  }
  const bool is_busy = response.status == 429 || response.status >= 500;
  return Error{is_busy ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument, std::move(said)};
}

Result<std::vector<std::string>> server_origins(const std::vector<std::string>& addresses) {
  std::vector<std::string> origins;
  for (const std::string& given : addresses) {
    for (const std::string_view address : words_of(given, ", ")) {
      const bool is_url = address.find("://") != address.npos;
      GLINT_TRY(const ServerUrl url,
                parse_server_url(is_url ? std::string(address) : str("http://", address)));
      if (url.path != "/") {
        return invalid(str(quoted(address), " has a path; expected HOST:PORT"));
      }
      if (contains(origins, url.origin)) {
        return invalid(str(quoted(address), " comes twice"));
      }
      origins.push_back(url.origin);
    }
  }
  if (origins.empty()) return invalid("names no server; expected HOST:PORT");
  return origins;
}

Result<std::unique_ptr<ExternalEngines>> ExternalEngines::open(ExternalEngineOptions options,
                                                               const ModelConfig& model) {
  GLINT_TRY(const std::vector<std::string> origins, server_origins(options.addresses));
  std::unique_ptr<ExternalEngines> all(new ExternalEngines(std::move(options), model));
  for (const std::string& origin : origins) all->servers_.push_back({.origin = origin});
  return all;
}

HttpClient ExternalEngines::client(int running) const {
  return HttpClient(servers_.front().origin,
                    {.read_seconds = options_.seconds,
                     .max_body_bytes = kMaxBody,
                     .max_connections = running * static_cast<int>(servers_.size())});
}

HttpClient::Exchange ExternalEngines::exchange(const Server& server, const char* method,
                                               const char* path, const Json& body) const {
  HttpClient::Exchange one = {.method = method, .target = server.origin + path};
  if (!options_.api_key.empty()) {
    one.headers.emplace_back("authorization", "Bearer " + options_.api_key);
  }
  if (body.is_null()) return one;
  one.headers.emplace_back("content-type", "application/json");
  one.body = dump_json(body);
  return one;
}

// Whether it can answer as the engine here would.
Status ExternalEngines::check(const Server& server, const Json& info) const {
  const auto differs = [&](const char* name, const std::string& own) -> Status {
    const std::string* const its = text_of(info, name);
    if (own.empty() || (its && *its == own)) return Ok{};
    return invalid(str(server.origin, " has the ", name, " ", its ? quoted(*its) : "of no glint",
                       ", the trainer ", quoted(own),
                       "; its answers would not be those of this engine"));
  };
  GLINT_TRY_STATUS(differs("build", options_.build));
  const std::string* const state = text_of(info, "state");
  if (state && *state != "ready") return unavailable(str(server.origin, " is ", *state));
  GLINT_TRY_STATUS(differs("vocabulary", options_.vocabulary));
  const Json* const length = info.find("max_model_len");
  if (length && length->is_int() && length->as_int() > 0) return Ok{};
  return invalid(str(server.origin, " tells no max_model_len: it is no glint serve"));
}

void ExternalEngines::bring_up(HttpClient& client, Server& server, const Done& done) {
  HttpClient::Exchange look = exchange(server, "GET", "/model_info", {});
  look.read_seconds = std::min(kInfoSeconds, options_.seconds);
  look.on_done = [this, &client, &server, done](Result<HttpResponse> answer) {
    if (!answer.ok()) return done(unavailable(answer.error().message));
    if (const Status status = status_of(answer.value()); !status.ok())
      return done(Error(status.error()).in(server.origin));
    const Result<Json> info = parse_json(answer.value().body, {.max_values = 4096});
    if (!info.ok())
      return done(invalid(str(server.origin, " sends no JSON: it is no glint serve")));
    if (const Status status = check(server, info.value()); !status.ok()) return done(status);
    server.max_model_len = static_cast<int>(
        std::min<std::int64_t>(info.value().find("max_model_len")->as_int(), INT_MAX));
    const std::string* const version = text_of(info.value(), "weight_version");
    if (version && *version == version_) return done(Ok{});
    give_weights(client, server, done);
  };
  client.start(std::move(look));
}

void ExternalEngines::give_weights(HttpClient& client, Server& server, const Done& done) {
  HttpClient::Exchange update = exchange(
      server, "POST", "/update_weights_from_disk",
      Json::Object{{"model_path", dir_}, {"weight_version", version_}, {"checksum", checksum_}});
  update.on_done = [this, &server, done](Result<HttpResponse> answer) {
    if (!answer.ok()) return done(unavailable(answer.error().message));
    if (const Status status = status_of(answer.value()); !status.ok())
      return done(Error(status.error()).in(server.origin + ": the new weights"));
    const Result<Json> said = parse_json(answer.value().body, {.max_values = 4096});
    const std::string* const version =
        said.ok() ? text_of(said.value(), "weight_version") : nullptr;
    const std::string* const sum = said.ok() ? text_of(said.value(), "checksum") : nullptr;
    if (version && sum && *version == version_ && *sum == checksum_) return done(Ok{});
    done(invalid(str(server.origin, " does not confirm the weights ", version_, ": it answers ",
                     cut_text(answer.value().body, 200))));
  };
  client.start(std::move(update));
}

Error ExternalEngines::nobody_answers() const {
  std::string all;
  for (const Server& server : servers_) {
    if (!server.is_up) all += str(all.empty() ? "" : "; ", server.why);
  }
  return unavailable(str("--rollout-external-engine-addrs: after ", format_double(options_.seconds),
                         " s (--rollout-external-timeout) there is no server to answer: ", all));
}

// One attempt for each that is not up.
Status ExternalEngines::bring_all_up() {
  HttpClient client = this->client(1);
  std::size_t left = 0;
  std::optional<Error> failure;
  const auto fail = [&](Error error) {
    failure = std::move(error);
    client.stop();
  };
  for (Server& server : servers_) {
    if (server.is_up) continue;
    ++left;
    bring_up(client, server, [&](const Status& status) {
      server.is_up = status.ok();
      if (!status.ok()) server.why = status.error().message;
      if (!status.ok() && status.error().code != ErrorCode::kUnavailable) {
        return fail(status.error());
      }
      if (--left == 0) client.stop();
    });
  }
  const std::function<void()> look = [&] {
    if (options_.goes_on && !options_.goes_on()) return fail(unavailable("interrupted"));
    client.after(kLookSeconds, look);
  };
  look();
  client.run();
  if (failure) return *failure;
  return Ok{};
}

Status ExternalEngines::load(const std::string& dir) {
  GLINT_TRY(const Checkpoint weights, Checkpoint::open(dir));
  ThreadPool pool(available_cpus());
  std::error_code error;
  dir_ = fs::absolute(dir, error).lexically_normal().string();
  checksum_ = checksum_of(weights.source(), pool);
  version_ = str(fs::path(dir_).filename().string(), "-", checksum_);
  for (Server& server : servers_) server.is_up = false;
  const auto begin = Clock::now();
  for (;;) {
    GLINT_TRY_STATUS(bring_all_up());
    const auto up = std::ranges::count_if(servers_, &Server::is_up);
    if (up == std::ssize(servers_) || (up > 0 && !is_first_)) break;
    if (seconds_since(begin) > options_.seconds) return nobody_answers();
    std::this_thread::sleep_for(from_seconds(kServerRetrySeconds));
  }
  for (Server& server : servers_) {
    if (!server.is_up) tell(str("left out until it answers: ", server.why));
    server.look = Clock::now() + from_seconds(kServerRetrySeconds);
  }
  is_first_ = false;
  return Ok{};
}

Result<std::unique_ptr<RolloutSession>> ExternalEngines::begin(const RolloutSize& size) {
  for (const Server& server : servers_) {
    if (!server.is_up || server.max_model_len >= size.longest) continue;
    return invalid(str(server.origin, " takes ", server.max_model_len,
                       " tokens (--max-model-len); ", "a prompt and its answer may have ",
                       size.longest));
  }
  return std::unique_ptr<RolloutSession>(std::make_unique<ExternalSession>(*this, size));
}

}  // namespace glint
