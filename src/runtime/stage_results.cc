#include "runtime/stage_results.h"

#include <algorithm>

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
  device_.synchronize();  // copies from memory of this object
}

std::uint64_t StageResults::expect(Expected& what) {
  Tensor there = what.to;
  if (!device_.is_host()) {
    const std::size_t bytes = there.bytes().size();
    device_.wait(what.taken);
    if (bytes > what.on_host.bytes()) what.on_host = device_.allocate_pinned(bytes);
    GLINT_CHECK(what.on_host.bytes() >= bytes, "no memory for the results of a stage");
    there.data = what.on_host.data();
  }
  wanted_.push(there);
  return ++asked_;
}

std::uint64_t StageResults::expect(const ResultRows& rows, Arena& arena, Expected& what) {
  what.to = arena.take(rows.dtype, {rows.rows, rows.width});
  return expect(what);
}

void StageResults::wait_for(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return there_ >= number; });
}

void StageResults::take(Expected& what) {
  if (device_.is_host() || !what.to) return;
  device_.copy(what.to.data, what.on_host.data(), what.to.bytes().size());
  what.taken = device_.record();
}

bool StageResults::reserve(std::size_t count, std::size_t bytes) {
  GLINT_CHECK(begun_.empty(), "steps are on their way");
  device_.synchronize();  // copies into the memory that there is
  if (ended_) spare_.push_back(std::move(ended_));
  while (spare_.size() < count) spare_.push_back(std::make_unique<Memory>(device_));
  return std::ranges::all_of(spare_, [&](const auto& one) { return one->arena.reserve(bytes); });
}

void StageResults::begin(const ResultRows& logits, const std::optional<ResultRows>& routed) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Memory>(device_));
  Begun& begun = begun_.emplace_back(Begun{.memory = std::move(spare_.back())});
  spare_.pop_back();
  begun.sent = device_.record();
  Memory& memory = *begun.memory;
  const Arena::Scope scope(memory.arena);  // for the next step that has this memory
  begun.last = expect(logits, memory.arena, memory.logits);
  memory.routed.to = {};
  if (routed) begun.last = expect(*routed, memory.arena, memory.routed);
}

StageResults::Step StageResults::end() {
  GLINT_CHECK(!begun_.empty(), "no step was begun");
  device_.wait(begun_.front().sent);
  wait_for(begun_.front().last);
  if (ended_) spare_.push_back(std::move(ended_));
  ended_ = std::move(begun_.front().memory);
  begun_.pop_front();
  take(ended_->logits);
  take(ended_->routed);
  return {.logits = ended_->logits.to, .routed = ended_->routed.to};
}

void StageResults::receive(const Tensor& to) {
  received_.to = to;
  const std::uint64_t number = expect(received_);
  device_.synchronize();  // what the others wait for is sent
  wait_for(number);
  take(received_);
}

void StageResults::abandon() {
  wait_for(asked_);
  while (!begun_.empty()) end();
}

}  // namespace glint
