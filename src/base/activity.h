// Activity: what a thread is doing now, for others to read (a watchdog), and if asked a record of
// it (a profile, in Chrome's trace format: chrome://tracing, Perfetto).
//
// begin() costs a few stores while nothing is recorded, so it may stand before every operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

class Activity {
 public:
  // From one thread:

  // Begins `what`, a literal, and ends the operation before it. `layer` -1: of none.
  void begin(const char* what, int layer = -1);
  void end();  // nothing is being done

  // For what follows: the step's number and how many tokens it runs.
  void set_step(std::uint64_t step, int num_tokens);

  // An operation has ended when `wait`, called then, returns: a device may be behind the host.
  void start_recording(std::function<void()> wait = {});
  bool recording() const { return recording_; }
  // Ends the recording and writes it.
  Status write_recording(const std::string& path);

  // Nothing is recorded, and nobody waits, while it lives.
  class Pause {
   public:
    explicit Pause(Activity& activity);
    ~Pause() { activity_.recording_ = recorded_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Activity& activity_;
    bool recorded_;
  };

  // From any thread: "step 7, layer 3: moe, 512 tokens"; "idle".
  std::string describe() const;
  // The last step, whatever of it has ended: "step 7, layer 3: moe, 512 tokens", "step 7, 512
  // tokens".
  std::string describe_last() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* what = nullptr;
    int layer = -1;
    int num_tokens = 0;
    std::uint64_t step = 0;
    Clock::time_point begin = {}, end = {};
  };
  void close_event();

  std::atomic<const char*> what_{nullptr};
  std::atomic<int> layer_{-1}, num_tokens_{0};
  std::atomic<std::uint64_t> step_{0};
  bool recording_ = false;
  Clock::time_point start_ = {};
  std::function<void()> wait_ = {};
  std::vector<Event> events_;
  bool open_ = false;  // the last event has not ended
};

}  // namespace glint
