// CurlLoop: libcurl's multi interface on epoll, with timers: thousands of transfers on one thread,
// each step costing what is ready, not what is open. Private to the sources of net/.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <functional>
#include <map>

#include "base/owned_fd.h"

namespace glint {

class CurlLoop {
 public:
  using Clock = std::chrono::steady_clock;

  CurlLoop();
  ~CurlLoop();  // the transfers must be gone
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  // Not from within a callback of libcurl.
  void add(CURL* transfer) { curl_multi_add_handle(multi_, transfer); }
  void remove(CURL* transfer) { curl_multi_remove_handle(multi_, transfer); }

  void at(Clock::time_point when, std::function<void()> fn) {
    timers_.emplace(when, std::move(fn));
  }
  bool has_timers() const { return !timers_.empty(); }

  // Waits for what comes first, at the latest until `deadline`: moves bytes, tells `on_done` of
  // each transfer that has ended, and calls the timers that are due.
  void step(Clock::time_point deadline, const std::function<void(CURL*, CURLcode)>& on_done);

 private:
  static int on_socket(CURL*, curl_socket_t socket, int what, void* self, void* known);
  static int on_timer(CURLM*, long milliseconds, void* self);
  void arm(Clock::time_point deadline);
  void run_due_timers();

  CURLM* multi_ = nullptr;
  const OwnedFd epoll_, alarm_;                            // the alarm is a timerfd
  Clock::time_point curl_due_ = Clock::time_point::max();  // when libcurl wants to be called
  Clock::time_point armed_ = Clock::time_point::max();     // what the alarm is set to
  std::multimap<Clock::time_point, std::function<void()>> timers_;
};

}  // namespace glint
