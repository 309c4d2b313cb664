#include "text/grammar/grammar_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <thread>

#include "base/cut_text.h"
#include "base/seconds.h"
#include "base/spawn_program.h"
#include "base/str.h"

namespace glint {
namespace {

// Descriptors of the grammar process.
constexpr int kControlFd = 3, kVocabularyFd = 4;

constexpr int kLowPriority = 10;
constexpr double kLowSeconds = 0.5;
constexpr int kWatchMilliseconds = 10;
constexpr std::size_t kMaxSentence = 2000;

Error no_process(const char* doing) {
  return unavailable(str("no process to compile grammars: ", doing, ": ", std::strerror(errno)));
}

// A message with descriptors. False: the other end is gone.
bool send_message(int socket, std::string_view text, std::span<const int> fds) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

struct Message {
  std::string text = {};
  OwnedFd fds[2] = {OwnedFd(), OwnedFd()};
};

// The next message; nothing: the other end is gone.
std::optional<Message> receive_message(int socket) {
  Message out;
  out.text.resize(kMaxSentence + 1);
  iovec part = {out.text.data(), out.text.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return {};
  out.text.resize(static_cast<std::size_t>(got));
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS) {
    int fds[2] = {-1, -1};
    std::memcpy(fds, CMSG_DATA(head), std::min(head->cmsg_len - CMSG_LEN(0), sizeof fds));
    for (int i = 0; i < 2; ++i) out.fds[i] = OwnedFd(fds[i]);
  }
  return out;
}

// Memory that a descriptor leads to, with these bytes.
OwnedFd memory_of(std::string_view bytes) {
  OwnedFd fd(::memfd_create("grammar", MFD_CLOEXEC));
  while (fd && !bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return OwnedFd();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return fd;
}

// The reverse; nothing if there is more than `max_bytes`.
std::optional<std::string> bytes_of(int fd, std::size_t max_bytes) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || status.st_size < 0 ||
      static_cast<std::uint64_t>(status.st_size) > max_bytes)
    return {};
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool make_sockets(OwnedFd& mine, OwnedFd& other) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return false;
  mine = OwnedFd(fds[0]);
  other = OwnedFd(fds[1]);
  return true;
}

std::string head_of(GrammarOutcome::Kind kind) { return {static_cast<char>(kind)}; }

std::string bytes_of(const GrammarBudget& budget) {
  std::string out(sizeof budget, '\0');
  std::memcpy(out.data(), &budget, sizeof budget);
  return out;
}

}  // namespace

GrammarProcess::GrammarProcess(std::vector<std::string> command,
                               const GrammarVocabulary& vocabulary)
    : command_(std::move(command)), vocabulary_(to_bytes(vocabulary)) {}

GrammarProcess::~GrammarProcess() { end(); }

void GrammarProcess::end() {
  if (pid_ == 0) return;
  control_ = OwnedFd();
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

Status GrammarProcess::warm() {
  if (pid_ != 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) return Ok{};
  pid_ = 0;
  return spawn();
}

Status GrammarProcess::spawn() {
  OwnedFd mine, others;
  if (!make_sockets(mine, others)) return no_process("socketpair");
  const OwnedFd vocabulary = memory_of(vocabulary_);
  if (!vocabulary) return no_process("memfd_create");
  const OwnedFd* const fds[] = {&others, &vocabulary};  // kControlFd, kVocabularyFd
  GLINT_TRY(pid_, spawn_program(command_, {.fds = fds}).in("no process to compile grammars"));
  control_ = std::move(mine);
  return Ok{};
}

Result<OwnedFd> GrammarProcess::start(std::string_view spec, const GrammarBudget& budget) {
  OwnedFd mine, others;
  if (!make_sockets(mine, others)) return no_process("socketpair");
  const OwnedFd memory = memory_of(spec);
  if (!memory) return no_process("memfd_create");
  const int fds[2] = {memory.get(), others.get()};
  // It may have ended since it was last seen.
  for (int attempt = 0; attempt < 2; ++attempt) {
    GLINT_TRY_STATUS(warm());
    if (send_message(control_.get(), bytes_of(budget), fds)) return mine;
    end();
  }
  return no_process("it ended");
}

GrammarOutcome read_outcome(int socket, std::size_t max_bytes) {
  using Kind = GrammarOutcome::Kind;
  const std::optional<Message> message = receive_message(socket);
  if (!message) return {};
  const auto kind = static_cast<Kind>(message->text[0]);
  switch (kind) {
    case Kind::kCompiled: {
      std::optional<std::string> bytes = bytes_of(message->fds[0].get(), max_bytes);
      if (bytes) return {.kind = kind, .text = *std::move(bytes)};
      return {.kind = Kind::kRefused,
              .text = str("the grammar has more than ", max_bytes >> 20, " MiB when compiled")};
    }
    case Kind::kRefused:
      return {.kind = kind, .text = message->text.substr(1)};
    case Kind::kOutOfTime:
    case Kind::kOutOfMemory:
    case Kind::kSlow:
      return {.kind = kind};
    case Kind::kEnded:
      break;
  }
  return {};
}

// From here on: the grammar process, and those that it forks.
namespace {

// Memory of this process that it can write to: what it asked for, in use or not, in RAM or swapped.
std::int64_t data_bytes() {
  const OwnedFd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[256] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  long long pages = 0;
  std::sscanf(text, "%*s %*s %*s %*s %*s %lld", &pages);
  return pages * ::sysconf(_SC_PAGESIZE);
}

void become_idle() {
  const sched_param none = {};
  ::sched_setscheduler(::getpid(), SCHED_IDLE, &none);
}

// Beside the thread that compiles: ends the process where it must end.
void watch(int socket, GrammarBudget budget, std::int64_t bytes_before) {
  const auto end = [&](GrammarOutcome::Kind kind) {
    send_message(socket, head_of(kind), {});
    ::_exit(0);
  };
  for (bool is_idle = false;;) {
    pollfd ready = {.fd = socket, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kWatchMilliseconds) > 0) ::_exit(0);  // nobody waits for it
    const double seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (seconds > budget.seconds) end(GrammarOutcome::Kind::kOutOfTime);
    if (data_bytes() - bytes_before > budget.bytes) end(GrammarOutcome::Kind::kOutOfMemory);
    if (!is_idle && seconds > kLowSeconds) {
      become_idle();
      is_idle = true;
      send_message(socket, head_of(GrammarOutcome::Kind::kSlow), {});
    }
  }
}

// The first to go when the machine has no memory left.
void offer_to_the_oom_killer() {
  const OwnedFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), "1000", 4) != 4) return;
}

[[noreturn]] void compile_one(const GrammarCompiler& compiler, int socket, int spec_fd,
                              const GrammarBudget& budget) {
  offer_to_the_oom_killer();
  std::thread([=, bytes = data_bytes()] { watch(socket, budget, bytes); }).detach();
  constexpr std::size_t kAnySize = std::size_t{1} << 40;
  const Result<GrammarSpec> spec = parse_spec(bytes_of(spec_fd, kAnySize).value_or(""));
  const auto grammar = spec.ok() ? compiler.compile(spec.value()) : spec.error();
  if (grammar.ok()) {
    const OwnedFd memory = memory_of(compiler.dump(*grammar.value()));
    const int fd = memory.get();
    if (memory) send_message(socket, head_of(GrammarOutcome::Kind::kCompiled), {&fd, 1});
  } else {
    const std::string text = cut_text(grammar.error().message, kMaxSentence / 2);
    send_message(socket, head_of(GrammarOutcome::Kind::kRefused) + text, {});
  }
  ::_exit(0);
}

}  // namespace

int run_grammar_process() {
  struct stat status = {};
  if (::fstat(kControlFd, &status) != 0 || !S_ISSOCK(status.st_mode)) return 2;
  // It ends with the server, which a terminal or a service manager may ask to end in its own time.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGPIPE})
    ::signal(number, SIG_IGN);
  ::prctl(PR_SET_NAME, "glint-grammars");
  errno = 0;
  if (::nice(kLowPriority) == -1 && errno != 0) return 2;
  std::optional<std::string> bytes = bytes_of(kVocabularyFd, std::size_t{1} << 31);
  if (!bytes) return 2;
  const Result<GrammarVocabulary> vocabulary = vocabulary_of(*bytes);
  if (!vocabulary.ok()) return 2;
  const GrammarCompiler compiler(vocabulary.value());
  bytes.reset();
  ::close(kVocabularyFd);

  while (std::optional<Message> job = receive_message(kControlFd)) {
    GrammarBudget budget;
    if (job->text.size() != sizeof budget || !job->fds[1]) return 2;
    std::memcpy(&budget, job->text.data(), sizeof budget);
    // Where none can be forked, its socket is closed, which says so.
    if (::fork() == 0) {
      ::close(kControlFd);
      compile_one(compiler, job->fds[1].get(), job->fds[0].get(), budget);
    }
  }
  return 0;
}

}  // namespace glint
