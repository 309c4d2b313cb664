#include "text/grammar/grammar_service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "base/str.h"
#include "text/grammar/grammar_cache.h"

namespace glint {
namespace {

// How often those that wait are asked whether they still do.
constexpr int kLookMilliseconds = 50;
// A machine without time for idle processes may never give a grammar its budget. By the clock it
// has so many times as long, and some seconds more while nobody waits for its place.
constexpr double kPatience = 2, kPatienceAlone = 10;

}  // namespace

struct GrammarService::Impl {
  using Clock = std::chrono::steady_clock;
  using Done = std::function<void(Grammar)>;

  struct Waiter {
    std::function<bool()> gone;
    Done done;
    std::string client = {};
  };
  // A grammar that somebody waits for.
  struct Job {
    std::string key;   // the spec
    GrammarSpec spec;  // where there is no process
    std::vector<Waiter> waiters = {};
    OwnedFd socket = OwnedFd();  // none: it has not begun
    Clock::time_point begun = {};
    bool is_slow = false;
  };
  // Calls to make without the lock.
  using Calls = std::vector<std::pair<Done, Grammar>>;

  Impl(const GrammarVocabulary& vocabulary, GrammarServiceOptions given)
      : options(std::move(given)),
        compiler(vocabulary),
        cache(options.cache_bytes),
        wake_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!options.command.empty()) {
      process.emplace(options.command, vocabulary);
      if (Status status = process->warm(); !status.ok())
        GLINT_LOG(kWarning, str("structured output fails: ", status.error().message));
      process_id = process->pid();
    }
    thread = std::thread([this] { work(); });
  }

  void wake() const {
    const std::uint64_t one = 1;
    if (::write(wake_fd.get(), &one, sizeof one) < 0) return;  // full: it is awake
  }

  void close() {
    const std::lock_guard only_one(close_mutex);
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    wake();
    thread.join();
  }

  // Nothing: `done` is called later.
  std::optional<Grammar> add(const GrammarSpec& spec, Waiter waiter) {
    std::string key = dump_spec(spec);
    if (key.size() > options.max_spec_bytes)
      return Grammar(invalid(
          str("the grammar has ", key.size(), " bytes; one may have ", options.max_spec_bytes)));
    const std::lock_guard lock(mutex);
    if (closed) return Grammar(unavailable("grammars are not compiled any more"));
    if (const Grammar* known = cache.find(key)) return *known;
    const auto same = [&](const Job& job) { return job.key == key; };
    auto job = std::find_if(jobs.begin(), jobs.end(), same);
    const bool is_new = job == jobs.end();
    std::size_t own = 1, own_bytes = key.size(), all_bytes = key.size();
    for (const Job& each : jobs) {
      const auto count = std::ranges::count(each.waiters, waiter.client, &Waiter::client);
      own += static_cast<std::size_t>(count);
      own_bytes += count > 0 ? each.key.size() : 0;
      all_bytes += each.key.size();
    }
    if (!leaves_room(own, num_waiting + 1, options.max_waiting))
      return Grammar(exhausted("the server is busy: too many requests wait for their grammars"));
    if (is_new && !leaves_room(own_bytes, all_bytes, options.max_waiting_bytes))
      return Grammar(exhausted("the server is busy: too many large grammars wait"));
    ++num_waiting;
    if (is_new)
      job =
          jobs.insert(jobs.end(), {.key = std::move(key), .spec = process ? GrammarSpec() : spec});
    job->waiters.push_back(std::move(waiter));
    return {};
  }

  // Whether a client may have `own` of `all`: not more than is left, so that the next one finds
  // room.
  static bool leaves_room(std::size_t own, std::size_t all, std::size_t max) {
    return own + all <= max;
  }

  void work() {
    for (bool go_on = true; go_on;) {
      try {
        go_on = look();
        if (go_on && !compile_here()) wait();
      } catch (const std::exception& thrown) {  // out of memory: what waits is looked at again
        GLINT_LOG(kError, str("grammars: ", thrown.what()));
      }
    }
    process.reset();
  }

  // After something happened. False: the service is closed, and all are answered.
  bool look() {
    Calls calls;
    bool go_on = true;
    {
      const std::lock_guard lock(mutex);
      go_on = !closed;
      drop_unwanted(calls);
      give_up_late_ones(calls);
      if (go_on) begin(calls);
      while (closed && !jobs.empty())
        answer(jobs.begin(), unavailable("grammars are not compiled any more"), calls);
    }
    for (auto& [done, grammar] : calls) done(std::move(grammar));
    return go_on;
  }

  using JobAt = std::list<Job>::iterator;

  // Ends a job. Its place is free.
  JobAt answer(JobAt job, const Grammar& grammar, Calls& calls) {
    for (Waiter& waiter : job->waiters) calls.emplace_back(std::move(waiter.done), grammar);
    num_waiting -= job->waiters.size();
    return jobs.erase(job);
  }

  void drop_unwanted(Calls& calls) {
    for (auto job = jobs.begin(); job != jobs.end();) {
      std::vector<Waiter>& waiters = job->waiters;
      const auto left = std::stable_partition(waiters.begin(), waiters.end(),
                                              [](const Waiter& each) { return !each.gone(); });
      for (auto waiter = left; waiter != waiters.end(); ++waiter)
        calls.emplace_back(std::move(waiter->done), unavailable("the request is cancelled"));
      num_waiting -= static_cast<std::size_t>(waiters.end() - left);
      waiters.erase(left, waiters.end());
      job = waiters.empty() ? jobs.erase(job) : std::next(job);
    }
  }

  int places(bool slow) const { return slow ? options.slow_at_once : options.at_once; }

  int num_running(bool slow) const {
    return static_cast<int>(std::ranges::count_if(
        jobs, [slow](const Job& job) { return job.socket && job.is_slow == slow; }));
  }

  std::size_t num_jobs(bool slow) const {
    return static_cast<std::size_t>(std::ranges::count(jobs, slow, &Job::is_slow));
  }

  void give_up_late_ones(Calls& calls) {
    for (auto job = jobs.begin(); job != jobs.end();) {
      const bool others_wait = std::cmp_greater(num_jobs(job->is_slow), places(job->is_slow));
      const double patience =
          kPatience * options.budget.seconds + (others_wait ? 0 : kPatienceAlone);
      if (!job->socket || seconds_since(job->begun) < patience) {
        ++job;
        continue;
      }
      job = answer(job,
                   unavailable(str("the machine is too busy to compile this grammar: in ", patience,
                                   " s it did not get ", options.budget.seconds,
                                   " s of processor time (--grammar-timeout)")),
                   calls);
    }
  }

  // When it was the turn of one of its clients; 0: long ago, if ever.
  std::uint64_t last_turn(const Job& job) const {
    std::uint64_t least = turn;
    for (const Waiter& waiter : job.waiters) {
      const auto found = turns.find(waiter.client);
      least = std::min(least, found == turns.end() ? 0 : found->second);
    }
    return least;
  }

  // The first to come of the client that has waited longest for a turn; end(): there is none.
  JobAt next(bool slow) {
    JobAt best = jobs.end();
    for (auto job = jobs.begin(); job != jobs.end(); ++job) {
      if (job->socket || job->is_slow != slow) continue;
      if (best == jobs.end() || last_turn(*job) < last_turn(*best)) best = job;
    }
    return best;
  }

  void take_turn(const Job& job) {
    ++turn;
    for (const Waiter& waiter : job.waiters) turns[waiter.client] = turn;
    std::erase_if(turns,
                  [this](const auto& one) { return one.second + options.max_waiting < turn; });
  }

  void begin(Calls& calls) {
    if (!process) return;
    for (const bool slow : {false, true}) {
      while (num_running(slow) < places(slow)) {
        const JobAt job = next(slow);
        if (job == jobs.end()) break;
        Result<OwnedFd> socket = process->start(job->key, options.budget);
        process_id = process->pid();
        if (!socket.ok()) {
          answer(job, socket.error(), calls);
          continue;
        }
        take_turn(*job);
        if (!slow) ++num_begun;
        job->begun = Clock::now();
        job->socket = std::move(socket).value();
      }
    }
  }

  // Until something happens.
  void wait() {
    std::vector<pollfd> polled = {{.fd = wake_fd.get(), .events = POLLIN, .revents = 0}};
    bool any = false;
    {
      const std::lock_guard lock(mutex);
      any = !jobs.empty();
      for (const Job& job : jobs)
        if (job.socket) polled.push_back({.fd = job.socket.get(), .events = POLLIN, .revents = 0});
    }
    ::poll(polled.data(), polled.size(), any ? kLookMilliseconds : -1);
    std::uint64_t count = 0;
    if (polled[0].revents != 0 && ::read(wake_fd.get(), &count, sizeof count) < 0) return;
    for (std::size_t i = 1; i < polled.size(); ++i)
      if (polled[i].revents != 0) finish(polled[i].fd);
  }

  // Only this thread ends jobs: the one with this socket is still there.
  void finish(int socket) {
    const auto is_job = [socket](const Job& job) { return job.socket.get() == socket; };
    Grammar grammar = unavailable("the server has no memory for this grammar");
    try {
      GrammarOutcome outcome = read_outcome(socket, options.max_compiled_bytes);
      if (outcome.kind == GrammarOutcome::Kind::kSlow) {
        if (leave_place(is_job)) return;
        grammar = exhausted("the server is busy: too many grammars that compile slowly wait");
      } else {
        grammar = grammar_of(std::move(outcome));
      }
    } catch (const std::bad_alloc&) {
    }
    keep(is_job, grammar);
  }

  // For one of the slow ones. False: too many wait for such a place, for each of its clients.
  template <class IsJob>
  bool leave_place(const IsJob& is_job) {
    const std::lock_guard lock(mutex);
    Job& job = *std::ranges::find_if(jobs, is_job);
    job.is_slow = true;
    if (num_running(true) <= options.slow_at_once) return true;
    const auto fits = [this](const Waiter& waiter) {
      const auto is_own = [&](const Job& each) {
        return each.is_slow && std::ranges::count(each.waiters, waiter.client, &Waiter::client) > 0;
      };
      const auto own = static_cast<std::size_t>(std::ranges::count_if(jobs, is_own));
      return leaves_room(own, num_jobs(true), options.max_slow);
    };
    if (!std::ranges::any_of(job.waiters, fits)) return false;
    job.socket = OwnedFd();
    return true;
  }

  // Without a process. False: there is nothing to do.
  bool compile_here() {
    if (process) return false;
    std::string key;
    GrammarSpec spec;
    {
      const std::lock_guard lock(mutex);
      const JobAt job = next(false);
      if (job == jobs.end()) return false;
      take_turn(*job);
      key = job->key;
      spec = job->spec;
    }
    ++num_begun;
    const Grammar grammar = compiler.compile(spec);
    keep([&](const Job& job) { return job.key == key; }, grammar);
    return true;
  }

  template <class IsJob>
  void keep(const IsJob& is_job, const Grammar& grammar) {
    Calls calls;
    {
      const std::lock_guard lock(mutex);
      const auto job = std::find_if(jobs.begin(), jobs.end(), is_job);
      if (grammar.ok()) {
        cache.add(job->key, grammar, memory_bytes(*grammar.value()));
      } else if (grammar.error().code == ErrorCode::kInvalidArgument) {
        cache.add(job->key, grammar, grammar.error().message.size());
      }
      answer(job, grammar, calls);
    }
    for (auto& [done, result] : calls) done(std::move(result));
  }

  Grammar grammar_of(GrammarOutcome outcome) const {
    using Kind = GrammarOutcome::Kind;
    switch (outcome.kind) {
      case Kind::kCompiled: {
        Grammar grammar = compiler.load(outcome.text);
        return grammar.ok() ? grammar : unavailable(grammar.error().message);
      }
      case Kind::kRefused:
        return invalid(std::move(outcome.text));
      case Kind::kOutOfTime:
        return invalid(str("the grammar takes more than ", options.budget.seconds,
                           " s of processor time to compile (--grammar-timeout); make it simpler"));
      case Kind::kOutOfMemory:
        return invalid(str("the grammar takes more than ", options.budget.bytes >> 20,
                           " MiB of memory to compile (--grammar-memory); make it simpler"));
      case Kind::kSlow:
      case Kind::kEnded:
        break;
    }
    return unavailable("the process that compiled the grammar ended before its time");
  }

  const GrammarServiceOptions options;
  const GrammarCompiler compiler;
  std::atomic<int> num_begun = 0, process_id = 0;

  std::optional<GrammarProcess> process;  // of the thread, once it runs

  std::mutex mutex;
  GrammarCache cache;
  std::list<Job> jobs;  // in the order in which they came
  std::uint64_t turn = 0;
  std::map<std::string, std::uint64_t> turns;  // the last one of each client
  std::size_t num_waiting = 0;
  bool closed = false;

  const OwnedFd wake_fd;
  std::mutex close_mutex;
  std::thread thread;
};

GrammarService::GrammarService(const GrammarVocabulary& vocabulary, GrammarServiceOptions options)
    : impl_(std::make_unique<Impl>(vocabulary, std::move(options))) {}

GrammarService::~GrammarService() { close(); }

void GrammarService::compile(const GrammarSpec& spec, std::function<bool()> gone,
                             std::function<void(Grammar)> done, std::string client) {
  if (std::optional<Grammar> known = impl_->add(spec, {std::move(gone), done, std::move(client)}))
    return done(*std::move(known));
  impl_->wake();
}

void GrammarService::close() { impl_->close(); }

std::shared_ptr<TokenConstraint> GrammarService::constrain(
    std::shared_ptr<const CompiledGrammar> grammar, bool after_reasoning) const {
  return impl_->compiler.constrain(std::move(grammar), after_reasoning);
}

int GrammarService::num_begun() const { return impl_->num_begun; }

int GrammarService::process_id() const { return impl_->process_id; }

}  // namespace glint
