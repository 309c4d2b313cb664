// Server: the HTTP API over one engine.
//
//   io thread (HttpServer) -> request threads: JSON, template, tokens [-> GrammarService]
//     -> Engine::submit
//   engine thread: the events of a step -> event threads: text, JSON -> bytes -> io thread
//
// listen() answers at once, with 503 until a model is opened, so that a load balancer sees a server
// that is starting.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/server_config.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// The model that is served.
struct ServedModel {
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  std::vector<TokenId> stop_ids = {};  // end an answer: generation_config.json's eos_token_id
  Executor* executor = nullptr;        // outlives the server
  std::function<Json()> ranks = {};    // what each holds and has moved; from any thread
  EngineOptions engine = {};           // the scheduler's max_seq_len is ServerConfig's
};

class Server {
 public:
  // Listens. Fails with one sentence: address in use, unknown parser names ...
  static Result<std::unique_ptr<Server>> listen(ServerConfig config);

  // Cancels what runs, closes every connection, joins.
  ~Server();

  // Starts the engine; from then on /health is 200. Once.
  Status open(ServedModel model);

  int port() const;

  // Refuses new requests (503 with Retry-After) and waits until those that run are done, at most
  // `seconds`. Returns how many were left.
  int drain(double seconds);

  // For a program that ends because it cannot go on: refuses new requests, and waits until those
  // that fail have their answers, a second at most. From any thread.
  void send_last_answers();

  // Replaces ranks that were lost, between two steps.
  Status mend();

  // The engine's numbers; all zero before open().
  EngineStats stats() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
