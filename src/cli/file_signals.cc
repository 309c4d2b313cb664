#include "cli/file_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/owned_fd.h"
#include "cli/interrupt.h"

namespace glint {
namespace {

// All that a signal handler may use: no allocation, no locks. Whatever cannot be written is lost.
void write_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Reads /proc/self/maps: "begin-end perms offset device inode   path" a line.
class MapsReader {
 public:
  MapsReader() : fd_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

  // The path of the mapping that holds `address`, in `line`; empty if there is none.
  std::string_view path_of(std::uintptr_t address, char (&line)[4096]) {
    while (const std::size_t size = next_line(line)) {
      const std::string_view text(line, size);
      std::size_t at = 0;
      const std::uintptr_t begin = hex(text, at), end = hex(text, ++at);
      const std::size_t path = text.find('/');
      if (address < begin || address >= end || path == text.npos) continue;
      return text.substr(path);
    }
    return {};
  }

 private:
  // Its length without the newline; 0 at the end. What does not fit in `line` is dropped.
  std::size_t next_line(char (&line)[4096]) {
    std::size_t size = 0;
    for (char c = 0; next_char(c) && c != '\n';) {
      if (size < sizeof line) line[size++] = c;
    }
    return size;
  }

  bool next_char(char& c) {
    if (at_ == have_) {
      const ssize_t n = ::read(fd_.get(), buffer_, sizeof buffer_);
      if (n <= 0) return false;
      at_ = 0;
      have_ = static_cast<std::size_t>(n);
    }
    c = buffer_[at_++];
    return true;
  }

  static std::uintptr_t hex(std::string_view text, std::size_t& at) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::uintptr_t value = 0;
    for (; at < text.size() && kDigits.find(text[at]) != kDigits.npos; ++at) {
      value = value * 16 + kDigits.find(text[at]);
    }
    return value;
  }

  const OwnedFd fd_;
  char buffer_[4096];
  std::size_t at_ = 0, have_ = 0;
};

void on_bus_error(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {  // not about a file: a bug, which should leave its trace
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  // Other threads read the same file and fail as well: one of them tells it, and ends them all.
  static std::atomic_flag told;
  while (told.test_and_set()) ::pause();
  char line[4096];
  MapsReader maps;
  const std::string_view path = maps.path_of(reinterpret_cast<std::uintptr_t>(info->si_addr), line);
  write_error("glint: cannot read ");
  write_error(path.empty() ? "a mapped file" : path);
  write_error(
      ": it was cut short since it was opened, or its disk fails; leave a checkpoint as it is "
      "while it is in use\n");
  end_program(2);
}

}  // namespace

void handle_file_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace glint
