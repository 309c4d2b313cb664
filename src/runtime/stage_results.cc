#include "runtime/stage_results.h"

#include "base/check.h"
#include "base/ending_signals.h"

namespace glint {

StageResults::StageResults(Comm& pp, Device& device) : pp_(pp), device_(device) {
  reader_ = std::thread([this] {
    leave_terminal_signals();
    while (const std::optional<Tensor> to = wanted_.pop()) {
      if (to->size() > 0) pp_.recv(*to, pp_.size() - 1);
      const std::lock_guard lock(mutex_);
      ++there_;
      changed_.notify_all();
    }
  });
}

StageResults::~StageResults() {
  wanted_.close();
  reader_.join();
}

std::uint64_t StageResults::expect(const Tensor& to) {
  wanted_.push(to);
  return ++asked_;
}

void StageResults::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return there_ >= number; });
}

Tensor StageResults::expect(const ResultRows& rows, Begun& begun) {
  const Tensor to = begun.arena->take(rows.dtype, {rows.rows, rows.width});
  begun.last = expect(to);
  return to;
}

void StageResults::begin(const ResultRows& logits, const std::optional<ResultRows>& routed) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Arena>(device_));
  Begun& begun = begun_.emplace_back(Begun{.arena = std::move(spare_.back())});
  spare_.pop_back();
  const Arena::Scope scope(*begun.arena);  // for the next step that has this arena
  begun.step.logits = expect(logits, begun);
  if (routed) begun.step.routed = expect(*routed, begun);
}

StageResults::Step StageResults::end() {
  GLINT_CHECK(!begun_.empty(), "no step was begun");
  wait_for(begun_.front().last);
  if (ended_) spare_.push_back(std::move(ended_->arena));
  ended_ = std::move(begun_.front());
  begun_.pop_front();
  return ended_->step;
}

void StageResults::receive(const Tensor& to) { wait_for(expect(to)); }

void StageResults::abandon() {
  wait_for(asked_);
  while (!begun_.empty()) end();
}

}  // namespace glint
