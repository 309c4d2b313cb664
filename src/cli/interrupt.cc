#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "base/ending_signals.h"

namespace glint {
namespace {

// State of signal handlers, which can reach nothing else, is the only state that is global.
enum class Interrupt { kExits, kRaisesFlag, kRaised };
std::atomic<Interrupt> interrupt{Interrupt::kExits};
static_assert(std::atomic<Interrupt>::is_always_lock_free);

std::atomic<int> raised_by{SIGINT};

// A SIGHUP is never the second signal: the shell and the kernel both tell that a terminal is
// closed, and systemd sends one after SIGTERM to what a login started.
void end_by_second(int signal) {
  if (signal != SIGHUP) ::_exit(128 + signal);
}

void on_interrupt(int signal) {
  auto expected = Interrupt::kRaisesFlag;
  if (interrupt.compare_exchange_strong(expected, Interrupt::kRaised)) {
    raised_by = signal;
  } else {
    end_by_second(signal);
  }
}

void end_by(int signal) { ::_exit(128 + signal); }

// The pipe of the ShutdownGuard; -1 when there is none, or after the first signal.
std::atomic<int> shutdown_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

std::atomic<bool> work_done{false};

void on_shutdown(int signal) {
  if (work_done) ::_exit(0);
  const int pipe = shutdown_pipe.exchange(-1);
  const unsigned char byte = static_cast<unsigned char>(signal);
  if (pipe < 0 || ::write(pipe, &byte, 1) != 1) end_by_second(signal);
}

std::atomic<bool> ignores_signals{false};
std::atomic<bool> wants_shutdown{false};  // shut_down() was called

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = ignores_signals ? SIG_IGN : handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

// SIGHUP that nohup had ignored stays so.
void set_hangup_handler(void (*handler)(int), int flags) {
  struct sigaction now = {};
  ::sigaction(SIGHUP, nullptr, &now);
  if (now.sa_handler != SIG_IGN) set_handler(SIGHUP, handler, flags);
}

// After a guard; `heard`: it heard a signal, and the program ends in its own way.
void leave_signals(bool heard) {
  set_handler(SIGTERM, SIG_DFL, 0);
  set_hangup_handler(heard ? SIG_IGN : SIG_DFL, 0);
  handle_interrupts();
}

}  // namespace

void end_program(int exit_code) { ::_exit(exit_code); }

int interrupted_exit_code() { return 128 + raised_by; }

void handle_interrupts() {
  set_handler(SIGINT, on_interrupt, 0);  // without SA_RESTART: a blocking read returns
  // The first process of a container gets no signal that it does not handle.
  if (::getpid() == 1) set_handler(SIGTERM, end_by, 0);
}

void ignore_interrupts() {
  ignores_signals = true;
  ignore_ending_signals();
}

void shut_down() {
  wants_shutdown = true;
  const int pipe = shutdown_pipe.exchange(-1);
  if (pipe >= 0) (void)!::write(pipe, "", 1);
}

InterruptGuard::InterruptGuard(Hears hears) : hears_(hears) {
  const Interrupt before = interrupt.exchange(Interrupt::kRaisesFlag);
  GLINT_CHECK(before == Interrupt::kExits, "two InterruptGuards at once");
  if (hears == Hears::kCtrlC) return;
  set_handler(SIGTERM, on_interrupt, 0);
  set_hangup_handler(on_interrupt, 0);
}

InterruptGuard::~InterruptGuard() {
  const Interrupt last = interrupt.exchange(Interrupt::kExits);
  if (hears_ == Hears::kAll) leave_signals(last == Interrupt::kRaised);
}

bool InterruptGuard::interrupted() const {
  return interrupt == Interrupt::kRaised || wants_shutdown;
}

ShutdownGuard::ShutdownGuard() {
  int ends[2];
  GLINT_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "no pipe for signals");
  read_end_ = OwnedFd(ends[0]);
  write_end_ = OwnedFd(ends[1]);
  shutdown_pipe = write_end_.get();
  set_handler(SIGINT, on_shutdown, SA_RESTART);
  set_handler(SIGTERM, on_shutdown, SA_RESTART);
  set_hangup_handler(on_shutdown, SA_RESTART);
  set_handler(SIGPIPE, SIG_IGN, 0);  // a log that nobody reads any more ends no server
  if (wants_shutdown) shut_down();
}

ShutdownGuard::~ShutdownGuard() {
  if (work_done) return;
  leave_signals(shutdown_pipe < 0);
  shutdown_pipe = -1;
}

void ShutdownGuard::work_is_done() { work_done = true; }

bool ShutdownGuard::wait_for(double seconds) {
  struct pollfd readable = {.fd = read_end_.get(), .events = POLLIN, .revents = 0};
  // Interrupted by the signal itself: then the byte is there.
  int ready = ::poll(&readable, 1, static_cast<int>(1e3 * seconds));
  if (ready < 0 && errno == EINTR) ready = ::poll(&readable, 1, 0);
  return ready > 0;
}

}  // namespace glint
