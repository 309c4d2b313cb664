// GrammarMasks: what each row of a step may say under its sequence's grammar, computed on threads
// of its own while the model runs.
//
// Two of them: a quick one, in the order in which masks are wanted, and for those that turn out
// to be much work a slow one, which runs only where the processor has nothing else to do. A mask
// that is not there when the step needs it is late: its sequence sits out until it is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/queue.h"
#include "engine/request.h"

namespace glint {

struct MaskRow {
  TokenConstraint::Next next = TokenConstraint::Next::kAnything;
  std::vector<std::uint32_t> bits = {};  // of kMasked
};

// The masks of one slice's sampling rows: row r as if the first r drafts had been taken. Rows after
// a draft that may not come have none: nobody looks at them.
struct MaskTask {
  std::shared_ptr<const Request> request;  // whose constraint is used; by nobody else until the end
  std::uint64_t number = 0;                // of the request's tasks, from 1 on
  std::vector<TokenId> taken = {};         // since the last task; accepted first
  std::vector<TokenId> drafts = {};
  bool slow = false;                   // more work than the quick thread does
  std::atomic<bool> cancelled{false};  // nobody waits for it any more
  std::vector<MaskRow> rows = {};      // the result
  // Guarded by GrammarMasks:
  bool done = false, late = false;
};

class GrammarMasks {
 public:
  explicit GrammarMasks(int vocab_size);
  ~GrammarMasks();

  // Called, on any thread, when the masks of a late task are there.
  using Listener = std::function<void(RequestId, std::uint64_t number)>;
  void set_listener(Listener listener);

  void start(std::shared_ptr<MaskTask> task);
  // Until all are done, or for so long.
  void wait(std::span<const std::shared_ptr<MaskTask>> tasks, double seconds);
  // Whether the masks are there. If not the task is late: the listener hears of its end.
  bool claim(MaskTask& task);

 private:
  using Tasks = Queue<std::shared_ptr<MaskTask>>;
  void end_quick();
  void work(Tasks& tasks, std::int64_t max_work);
  // False: it takes more than `max_work` a row. It goes on where it was.
  bool fill(MaskTask& task, std::int64_t max_work) const;
  void finish(MaskTask& task);

  const std::size_t words_;
  std::mutex mutex_;
  std::condition_variable done_;
  Listener listener_;
  Tasks quick_, slow_;
  std::thread quick_thread_, slow_thread_;  // last: they use the others
};

}  // namespace glint
