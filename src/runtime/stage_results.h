// StageResults: what the last stage of a model computes, as it comes to the first.
//
// A thread of its own takes it, in order, as soon as it is sent: so no stage waits until the first
// is done with its part of a later step, and several steps are on their way at the same time.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/queue.h"
#include "comm/comm.h"
#include "tensor/arena.h"

namespace glint {

// Rows of results, and what a row is.
struct ResultRows {
  DType dtype = DType::kF32;
  std::int64_t rows = 0, width = 0;
};

class StageResults {
 public:
  // Those of the last rank of `pp`, in memory of `device`; both outlive it.
  StageResults(Comm& pp, Device& device);
  // Waits for what is still expected.
  ~StageResults();

  // A step was begun, and these are its results; the second may be nobody's wish.
  void begin(const ResultRows& logits, const std::optional<ResultRows>& routed);
  struct Step {
    Tensor logits = {}, routed = {};
  };
  // Those of the oldest step begun; valid until the next end().
  Step end();
  // Into `to`, after the results of all steps begun so far.
  void receive(const Tensor& to);
  // The group has ended: forgets the steps begun.
  void abandon();

 private:
  struct Begun {
    std::unique_ptr<Arena> arena;  // from which only this step takes
    Step step = {};
    std::uint64_t last = 0;  // the number of its last tensor
  };
  std::uint64_t expect(const Tensor& to);
  Tensor expect(const ResultRows& rows, Begun& begun);
  void wait_for(std::uint64_t number);

  Comm& pp_;
  Device& device_;
  std::deque<Begun> begun_;  // oldest first
  std::optional<Begun> ended_;
  std::vector<std::unique_ptr<Arena>> spare_;
  std::uint64_t asked_ = 0;  // tensors, so far
  Queue<Tensor> wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t there_ = 0;  // of those asked for
  std::thread reader_;
};

}  // namespace glint
