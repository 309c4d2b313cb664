// ExternalEngines: servers that answer in rollouts (`glint serve`, of this build), by their
// addresses. Requests are shared among them; what one does not answer another does, or itself when
// it is there again. Weights go as files, which every server reads and confirms by their checksum.
//
// A server that does not answer is left out until it does, and has the newest weights before it is
// asked anything: no answer is ever of other weights than it says.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "net/http_client.h"
#include "rl/rollout_engine.h"

namespace glint {

struct ExternalEngineOptions {
  std::vector<std::string> addresses = {};  // HOST:PORT, or a URL
  std::string api_key = {};                 // empty: none is sent
  double seconds = 600;                     // that all may be away, or take for new weights
  // The servers must be of them. An empty build: any.
  std::string build = {}, vocabulary = {};
  std::function<bool()> goes_on = {};                      // false: nobody waits any more
  std::function<void(const std::string& line)> tell = {};  // who is away, and who is back
};

inline constexpr double kServerRetrySeconds = 1;  // before a server is asked again

// The status that a server answers with, without the server's name: kUnavailable where another time
// may be better.
Status status_of(const HttpResponse& response);

// "http://HOST:PORT" of each address. Fails on what is none, and on one that comes twice.
Result<std::vector<std::string>> server_origins(const std::vector<std::string>& addresses);

class ExternalEngines final : public RolloutEngine {
 public:
  // `model` is that of all of them.
  static Result<std::unique_ptr<ExternalEngines>> open(ExternalEngineOptions options,
                                                       const ModelConfig& model);

  const ModelConfig& config() const override { return model_; }
  Result<std::unique_ptr<RolloutSession>> begin(const RolloutSize& size) override;

  // Returns when every server that answers has the weights in `dir`, which the servers see as well;
  // the first time all do. Not while a session is open. Fails with kUnavailable if none answers in
  // time, and on a server that does not fit, which it names.
  Status load(const std::string& dir);

 private:
  friend class ExternalSession;
  using Clock = std::chrono::steady_clock;
  struct Server {
    std::string origin;
    bool is_up = false;
    std::string why = {};  // it is not
    int max_model_len = 0;
    int running = 0;              // requests of a session
    Clock::time_point look = {};  // when to see whether it is there again
    bool is_looked_at = false;
  };

  ExternalEngines(ExternalEngineOptions options, const ModelConfig& model)
      : options_(std::move(options)), model_(model) {}

  // For `running` exchanges with each server at once.
  HttpClient client(int running) const;
  HttpClient::Exchange exchange(const Server& server, const char* method, const char* path,
                                const Json& body) const;
  // Looks whether `server` is one of ours and ready, and gives it the weights if it has others.
  // `done` hears kUnavailable where it may be later.
  using Done = std::function<void(Status)>;
  void bring_up(HttpClient& client, Server& server, const Done& done);
  void give_weights(HttpClient& client, Server& server, const Done& done);
  Status check(const Server& server, const Json& info) const;
  Status bring_all_up();
  Error nobody_answers() const;
  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  const ExternalEngineOptions options_;
  const ModelConfig& model_;
  std::vector<Server> servers_;
  std::string dir_, checksum_, version_;  // of the weights
  bool is_first_ = true;                  // no weights were loaded yet
};

}  // namespace glint
