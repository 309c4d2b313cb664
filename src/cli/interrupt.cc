#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/check.h"

namespace glint {
namespace {

// The only state of the program that is global: a signal handler can reach nothing else.
enum class Interrupt { kExits, kRaisesFlag, kRaised };
std::atomic<Interrupt> interrupt{Interrupt::kExits};
static_assert(std::atomic<Interrupt>::is_always_lock_free);

void on_interrupt(int) {
  auto expected = Interrupt::kRaisesFlag;
  if (!interrupt.compare_exchange_strong(expected, Interrupt::kRaised)) {
    ::_exit(kInterruptedExitCode);
  }
}

}  // namespace

void handle_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: a blocking read returns
}

InterruptGuard::InterruptGuard() {
  const Interrupt before = interrupt.exchange(Interrupt::kRaisesFlag);
  GLINT_CHECK(before == Interrupt::kExits, "two InterruptGuards at once");
}

InterruptGuard::~InterruptGuard() { interrupt = Interrupt::kExits; }

bool InterruptGuard::interrupted() const { return interrupt == Interrupt::kRaised; }

void InterruptGuard::reset() { interrupt = Interrupt::kRaisesFlag; }

}  // namespace glint
