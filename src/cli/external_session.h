// ExternalSession: the requests of one set of rollouts, over servers.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "cli/external_engines.h"
#include "rl/answer_piece.h"

namespace glint {

class ExternalSession final : public RolloutSession {
 public:
  ExternalSession(ExternalEngines& engines, const RolloutSize& size);

  Status submit(Request request) override;
  void abort(RequestId id) override;
  Status run(const OnEvents& on_events) override;

 private:
  using Clock = ExternalEngines::Clock;
  using Server = ExternalEngines::Server;

  struct Ask {
    Request request = {};
    AnswerLimits limits = {};
    Server* server = nullptr;  // null: it waits for one
    HttpClient::Id exchange = 0;
    std::string rid = {};
    int attempts = 0, failures = 0;
    std::size_t bytes = 0;
    bool is_aborted = false;
    // Told already: another server says the same.
    std::vector<TokenId> tokens = {};
    std::vector<float> log_probs = {};
  };

  void tick();
  void fill();
  Server* choose(const Request& request);
  void send(RequestId id, Ask& ask, Server& server);
  void end_exchange(RequestId id, Result<HttpResponse> answer);
  // A piece of its answer.
  Status take(RequestId id, Ask& ask, std::string_view data);
  // The request waits for a server again; this one is away for a while.
  void lose(RequestId id, Ask& ask, const std::string& why);
  void leave(Ask& ask);
  void look_after(Server& server);
  void deliver(std::vector<TokenEvent> events);
  void fail(Error error);

  ExternalEngines& engines_;
  const RolloutSize size_;
  const std::string name_;  // of the session, in the names of its requests
  HttpClient client_;
  const OnEvents* on_events_ = nullptr;
  std::map<RequestId, Ask> asks_;
  std::deque<RequestId> waiting_;
  Shared<std::vector<TokenId>> last_prompt_;
  Server* last_server_ = nullptr;
  Clock::time_point someone_up_ = Clock::now();
  bool is_over_ = false;
  std::optional<Error> failure_;
};

}  // namespace glint
