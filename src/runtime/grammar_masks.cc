#include "runtime/grammar_masks.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/undo.h"

namespace glint {
namespace {

using Next = TokenConstraint::Next;

// Lowers the calling thread's priority; it stays as it is where the system refuses.
void run_when_idle() {
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);
}

}  // namespace

GrammarMasks::GrammarMasks(int vocab_size)
    : words_((static_cast<std::size_t>(vocab_size) + 31) / 32) {
  quick_thread_ = std::thread([this] { work(quick_, kQuickMaskWork); });
  Undo undo([this] { end_quick(); });
  slow_thread_ = std::thread([this] {
    run_when_idle();
    work(slow_, kMaxMaskWork);
  });
  undo.keep();
}

void GrammarMasks::end_quick() {
  quick_.close();
  quick_thread_.join();
}

GrammarMasks::~GrammarMasks() {
  end_quick();
  slow_.close();
  slow_thread_.join();
}

void GrammarMasks::set_listener(Listener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void GrammarMasks::start(std::shared_ptr<MaskTask> task) {
  (task->slow ? slow_ : quick_).push(std::move(task));
}

void GrammarMasks::wait(std::span<const std::shared_ptr<MaskTask>> tasks, double seconds) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return std::all_of(tasks.begin(), tasks.end(), [](const auto& task) { return task->done; });
  });
}

bool GrammarMasks::claim(MaskTask& task) {
  const std::lock_guard lock(mutex_);
  task.late = !task.done;
  return task.done;
}

void GrammarMasks::work(Tasks& tasks, std::int64_t max_work) {
  while (std::optional<std::shared_ptr<MaskTask>> task = tasks.pop()) {
    if (fill(**task, max_work)) {
      finish(**task);
    } else {
      (*task)->slow = true;
      slow_.push(std::move(*task));
    }
  }
}

bool GrammarMasks::fill(MaskTask& task, std::int64_t max_work) const {
  TokenConstraint& constraint = *task.request->constraint;
  bool refused = false;
  for (const TokenId token : std::exchange(task.taken, {}))
    refused = refused || !constraint.accept(token);
  // A second try begins again: what was accepted of the drafts was taken back.
  std::size_t accepted = 0;
  bool within = true;
  task.rows.clear();
  for (std::size_t r = 0; r <= task.drafts.size() && !task.cancelled; ++r) {
    MaskRow row = {.bits = std::vector<std::uint32_t>(words_)};
    row.next = refused ? Next::kMasked : constraint.fill_mask(row.bits, max_work);
    within = row.next != Next::kGivenUp || max_work == kMaxMaskWork;
    task.rows.push_back(std::move(row));
    const bool goes_on = within && r < task.drafts.size() && task.rows.back().next != Next::kEnd;
    if (!goes_on || !constraint.accept(task.drafts[r])) break;
    ++accepted;
  }
  if (accepted > 0) constraint.rollback(static_cast<int>(accepted));
  return within;
}

void GrammarMasks::finish(MaskTask& task) {
  const std::lock_guard lock(mutex_);
  task.done = true;
  done_.notify_all();
  if (task.late && listener_) listener_(task.request->id, task.number);
}

}  // namespace glint
