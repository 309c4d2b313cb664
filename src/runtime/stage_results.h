// StageResults: what the last stage of a model computes, as it comes to the first.
//
// A thread of its own takes it, in order, as soon as it is sent: so no stage waits until the first
// is done with its part of a later step, and several steps are on their way at the same time. It
// comes to the host: a device has one order of work, in which a result would wait for the sends of
// later steps, and these, on the last stage, for the result.
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
  // Results of the last rank of `pp`, a group on the host, for memory of `device`; both outlive
  // this.
  StageResults(Comm& pp, Device& device);
  // Waits for what is still expected.
  ~StageResults();

  // Makes room for `count` steps' results of `bytes` each, where no step is begun. False: there is
  // none.
  bool reserve(std::size_t count, std::size_t bytes);
  // A step was begun, and these are its results; `routed` is empty if not requested.
  void begin(const ResultRows& logits, const std::optional<ResultRows>& routed);
  struct Step {
    Tensor logits = {}, routed = {};
  };
  // The results of the oldest step begun; valid until the next end().
  Step end();
  // Into `to`, after the results of all steps begun so far.
  void receive(const Tensor& to);
  // The group has ended: forgets the steps begun.
  void abandon();

 private:
  // A tensor, and where it comes first.
  struct Expected {
    Tensor to = {};
    Buffer on_host = {};  // pinned; unused where the device is the host
    Event taken = {};     // from there
  };
  struct Memory {
    explicit Memory(Device& device) : arena(device) {}

    Arena arena;  // from which only one step takes
    Expected logits = {}, routed = {};
  };
  struct Begun {
    std::unique_ptr<Memory> memory;
    Event sent = {};         // this stage's part
    std::uint64_t last = 0;  // the number of its last tensor
  };
  // The number of the tensor.
  std::uint64_t expect(Expected& what);
  std::uint64_t expect(const ResultRows& rows, Arena& arena, Expected& what);
  void wait_for(std::uint64_t number);
  void take(Expected& what);

  Comm& pp_;
  Device& device_;
  std::deque<Begun> begun_;  // oldest first
  std::unique_ptr<Memory> ended_;
  std::vector<std::unique_ptr<Memory>> spare_;
  Expected received_;
  std::uint64_t asked_ = 0;  // tensors, so far
  Queue<Tensor> wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t there_ = 0;  // of those asked for
  std::thread reader_;
};

}  // namespace glint
