// Generations: every request that makes the engine generate, from its body to its last byte. Owns
// the engine and the threads on which events become text.
//
//   request thread: JSON -> ApiRequest -> prompt, tokens, Session
//   the same, or where a grammar is to be compiled the thread of GrammarService, once it is there:
//                   Engine::submit
//   engine thread:  events of a step, one post for each event thread
//   event thread:   Session::on_event
//   another thread: Session::tell, of answers with very many log-probabilities
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "server/dialects/openai_request.h"
#include "server/id_source.h"
#include "server/server.h"
#include "server/session.h"
#include "server/task_threads.h"

namespace glint {

// How many of the text threads read requests; the others turn events into text.
int request_threads(const ServerConfig& config);

class Generations {
 public:
  // Sees each finished request.
  using Observer = std::function<void(const RequestRecord&, const RequestContext&, const Answer&)>;

  Generations(const ServerConfig& config, ServedModel model, std::shared_ptr<Metrics> metrics,
              IdSource& ids, Observer observer);
  // Cancels what runs; every answer is sent or given up before it returns. Nobody may submit any
  // more.
  ~Generations();

  // On a request thread. Answers `reply`, at once or when the engine is done; several requests are
  // its parts.
  void submit(std::vector<ApiRequest> requests, Reply reply);

  // Cancels the requests whose own id or whose client's id (rid, x-request-id) is `id`, or the
  // choice that has it; all if it is empty. Returns how many.
  int abort(const std::string& id);
  // Cancels all, and waits until they have ended: some seconds at most.
  void abort_all();

  // Ends a pause, waits until nothing runs, at most `seconds`, then cancels the rest. Returns how
  // many those were.
  int drain(double seconds);

  int num_live();  // requests that are not answered to their end

  Engine& engine() { return *engine_; }
  const Executor& executor() const { return *executor_; }
  Json ranks() const { return ranks_ ? ranks_() : Json(Json::Array()); }
  const TextModel& model() const { return model_; }
  // The name of the weights that answer.
  Guarded<std::string>& weights() { return weights_; }
  const TokenNames& names() const { return names_; }
  ParseContext parse_context() const { return {config_, model_.vocab_size}; }
  // An error if `name` is none of the served ones, nor empty.
  ApiStatus check_model(const std::string& name) const;

 private:
  // The choices of a request that somebody aborted; asked while its grammar is compiled.
  using Aborted = std::vector<std::atomic<bool>>;
  struct Live {
    std::string id, rid, request_id;
    std::shared_ptr<Aborted> aborted;
  };
  // The requests of a session, before the engine has them.
  struct Ready {
    std::uint64_t number = 0;  // in live_
    Prepared prepared;         // they and their constraints
    Reply reply;
    std::shared_ptr<const Aborted> aborted;
    std::shared_ptr<std::atomic<bool>> admitted;
  };
  // One event thread and the sessions that it owns.
  struct EventThread {
    std::unordered_map<std::uint64_t, std::shared_ptr<Session>> sessions;  // of the thread alone
    TaskThreads tasks{1};  // last: joins before the sessions go
  };

  void on_events(std::vector<TokenEvent> events);
  Result<Prepared, ApiError> prepare_for(ApiRequest& request, const ApiRequest& first,
                                         const Reply& reply);
  // `admitted`: whether an answer of the same body has its place in the queue, which then has room
  // for all of them.
  void begin(ApiRequest request, Prepared prepared, Reply reply,
             std::shared_ptr<std::atomic<bool>> admitted);
  void guard_memory(const Ready& ready, const std::function<void()>& run);
  void compile_grammar(const std::shared_ptr<Ready>& ready, const GrammarSpec& spec,
                       const std::string& field);
  void take_grammar(Ready& ready, GrammarService::Grammar grammar, const std::string& field);
  void run_requests(Ready& ready);
  static void run_session(Session& session, const std::function<void(Session&)>& run);
  ApiStatus check_wait() const;
  static bool all_aborted(const Aborted& aborted);
  void abort_live(std::uint64_t number, const Live& live);
  void abort_choice(std::uint64_t number, const Live& live, std::size_t choice);
  std::uint64_t remember(Live live);  // its number
  void forget(std::uint64_t number);
  void add_session(const std::shared_ptr<EventThread>& thread, std::uint64_t number,
                   std::shared_ptr<Session> session, Reply reply);
  const std::shared_ptr<EventThread>& thread_of(std::uint64_t number) const {
    return event_threads_[number % event_threads_.size()];
  }
  // On the thread of `thread`: ends a session, if it is still there; forgets one that is done.
  void end_session(EventThread& thread, std::uint64_t number,
                   const std::function<void(Session&)>& end);
  // end_session(), from any thread.
  void end_session(std::uint64_t number, std::function<void(Session&)> end);
  void forget(EventThread& thread, std::uint64_t number);
  void tell_long(Session& session, std::uint64_t number);
  void keep_streams_alive();  // the work of `alive_thread_`

  const ServerConfig& config_;
  std::shared_ptr<Metrics> metrics_;
  IdSource& ids_;
  Executor* executor_;
  const std::function<Json()> ranks_;
  const TextModel model_;
  const TokenNames names_;
  Guarded<std::string> weights_;
  SessionServices services_;
  std::atomic<bool> closing_ = false;   // the engine is no longer to be called
  std::atomic<bool> stopping_ = false;  // running requests are no longer waited for

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Live> live_;
  bool stop_alive_ = false;

  TaskThreads long_answers_{1};  // one at a time, as they take some times their text
  std::vector<std::shared_ptr<EventThread>> event_threads_;
  std::unique_ptr<Engine> engine_;
  std::thread alive_thread_;
};

}  // namespace glint
