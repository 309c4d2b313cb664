#include "net/curl_loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace glint {
namespace {

constexpr int kEvents = 256;              // looked at in one step
constexpr long kKeptConnections = 16384;  // libcurl's default shrinks with the transfers

}  // namespace

CurlLoop::CurlLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      alarm_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  GLINT_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl does not start");
  multi_ = curl_multi_init();
  GLINT_CHECK(multi_ != nullptr, "libcurl has no memory");
  GLINT_CHECK(epoll_ && alarm_, "no file descriptors are left for a client");
  epoll_event event = {.events = EPOLLIN, .data = {.fd = alarm_.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, alarm_.get(), &event);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kKeptConnections);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
}

CurlLoop::~CurlLoop() {
  curl_multi_cleanup(multi_);
  curl_global_cleanup();
}

int CurlLoop::on_socket(CURL*, curl_socket_t socket, int what, void* self, void* known) {
  CurlLoop& loop = *static_cast<CurlLoop*>(self);
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(loop.epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event = {.events = 0, .data = {.fd = socket}};
  if (what & CURL_POLL_IN) event.events |= EPOLLIN;
  if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
  if (known == nullptr) {
    epoll_ctl(loop.epoll_.get(), EPOLL_CTL_ADD, socket, &event);
    curl_multi_assign(loop.multi_, socket, self);  // known from now on
  } else {
    epoll_ctl(loop.epoll_.get(), EPOLL_CTL_MOD, socket, &event);
  }
  return 0;
}

int CurlLoop::on_timer(CURLM*, long milliseconds, void* self) {
  static_cast<CurlLoop*>(self)->curl_due_ =
      milliseconds < 0 ? Clock::time_point::max()
                       : Clock::now() + std::chrono::milliseconds(milliseconds);
  return 0;
}

// epoll_wait counts milliseconds, and timers should not.
void CurlLoop::arm(Clock::time_point deadline) {
  if (deadline == armed_) return;
  armed_ = deadline;
  itimerspec spec = {};
  if (deadline != Clock::time_point::max()) {
    const std::int64_t ns =
        std::max<std::int64_t>(deadline.time_since_epoch() / std::chrono::nanoseconds(1), 1);
    spec.it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  }
  timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void CurlLoop::step(Clock::time_point deadline,
                    const std::function<void(CURL*, CURLcode)>& on_done) {
  Clock::time_point wake = std::min(deadline, curl_due_);
  if (!timers_.empty()) wake = std::min(wake, timers_.begin()->first);
  const bool due = wake <= Clock::now();
  if (!due) arm(wake);
  std::array<epoll_event, kEvents> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEvents, due ? 0 : -1);
  int running = 0;
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd == alarm_.get()) {
      std::uint64_t rung;
      if (read(alarm_.get(), &rung, sizeof rung) < 0) continue;
      armed_ = Clock::time_point::max();
      continue;
    }
    int what = 0;
    if (event.events & EPOLLIN) what |= CURL_CSELECT_IN;
    if (event.events & EPOLLOUT) what |= CURL_CSELECT_OUT;
    if (event.events & (EPOLLERR | EPOLLHUP)) what |= CURL_CSELECT_ERR;
    curl_multi_socket_action(multi_, event.data.fd, what, &running);
  }
  if (curl_due_ <= Clock::now()) {
    curl_due_ = Clock::time_point::max();
    curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) on_done(message->easy_handle, message->data.result);
  }
  run_due_timers();
}

void CurlLoop::run_due_timers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const std::function<void()> fn = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    fn();
  }
}

}  // namespace glint
