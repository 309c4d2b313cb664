// How late the clock of `glint bench serve` is: a process that sends N streams an event each P
// milliseconds and writes into each event when it was sent, and the load generator, which reads
// them. The two clocks are the same, so the difference is what the generator and the kernel add to
// every time that a load test reports.
//
//   bench_lag [STREAMS [PERIOD_MS [SECONDS]]]
//
// Twice: all streams at once, as steps of an engine send them, and spread evenly over the period.
// Fails if an event is lost or read before it was sent. Times are reported, never judged.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/str.h"
#include "bench/load.h"

namespace {

using namespace glint;

struct Schedule {
  int streams = 200, period_ms = 20, seconds = 5;
  bool spread = false;

  int num_events() const { return seconds * 1000 / period_ms; }
};

std::int64_t now_ns() { return BenchClock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void send_chunk(int fd, const std::string& text) {
  send_all(fd, str(formatted("%zx", text.size()), "\r\n", text, "\r\n"));
}

std::string event(std::int64_t token, bool last) {
  return str(
      R"(data: {"id":"cmpl-0","object":"text_completion","created":1,"model":"m","choices":)",
      R"([{"index":0,"text":" word","token_ids":[)", token, R"(],"finish_reason":)",
      last ? "\"length\"" : "null", "}]}\n\n");
}

// The path of one request, whose body is read with it.
std::string read_request(int fd) {
  std::string text;
  char bytes[8 << 10];
  std::size_t end = text.npos, whole = 0;
  while (end == text.npos || text.size() < whole) {
    const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) return "";
    text.append(bytes, static_cast<std::size_t>(n));
    end = text.find("\r\n\r\n");
    if (end == text.npos) continue;
    const std::size_t length = lower(text.substr(0, end)).find("content-length: ");
    whole = end + 4;
    if (length < end) whole += std::strtoul(text.c_str() + length + 16, nullptr, 10);
  }
  return text.substr(0, text.find(' ', text.find(' ') + 1));
}

// Answers what is not a stream, and returns the connection of the next that is.
int accept_stream(int listener) {
  for (;;) {
    const int fd = accept(listener, nullptr, nullptr);
    const std::string request = read_request(fd);
    if (request == "POST /v1/completions") return fd;
    const std::string body = request == "GET /v1/models" ? R"({"data":[{"id":"m"}]})" : "";
    send_all(fd, str("HTTP/1.1 ", body.empty() ? "404 Not Found" : "200 OK",
                     "\r\nconnection: close\r\ncontent-length: ", body.size(), "\r\n\r\n", body));
    close(fd);
  }
}

// Serves one load of the schedule, then whatever else is asked, until it is killed.
void serve(int listener, const Schedule& schedule) {
  prctl(PR_SET_TIMERSLACK, 1);
  std::vector<int> streams;
  while (static_cast<int>(streams.size()) < schedule.streams) {
    streams.push_back(accept_stream(listener));
    send_all(streams.back(),
             "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
             "transfer-encoding: chunked\r\n\r\n");
  }
  const auto begin = BenchClock::now() + std::chrono::milliseconds(schedule.period_ms);
  const std::chrono::nanoseconds period = std::chrono::milliseconds(schedule.period_ms);
  for (int i = 0; i < schedule.num_events(); ++i) {
    for (std::size_t s = 0; s < streams.size(); ++s) {
      if (s == 0 || schedule.spread) {
        const auto share = static_cast<std::int64_t>(schedule.spread ? s : 0);
        std::this_thread::sleep_until(begin + i * period + share * period / schedule.streams);
      }
      send_chunk(streams[s], event(now_ns(), i + 1 == schedule.num_events()));
    }
  }
  for (const int fd : streams) {
    send_chunk(fd, str(R"(data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":)",
                       schedule.num_events(), "}}\n\ndata: [DONE]\n\n"));
    send_all(fd, "0\r\n\r\n");
    close(fd);
  }
  accept_stream(listener);
}

int listen_here(int& port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(fd, 4096) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    return -1;
  port = ntohs(at.sin_port);
  return fd;
}

// Whether every event came, and none before it was sent.
bool report(const Schedule& schedule, const LoadResult& result) {
  std::vector<double> late, gaps;
  bool sound = result.summary.num_failed == 0;
  if (!sound) std::fprintf(stderr, "%s\n", result.summary.first_failure.c_str());
  for (const StreamRecord& r : result.records) {
    if (!r.failure.empty()) continue;
    sound = sound && r.chunks.size() == r.tokens.size();
    for (std::size_t i = 0; i < std::min(r.chunks.size(), r.tokens.size()); ++i) {
      const BenchClock::time_point sent{std::chrono::nanoseconds(r.tokens[i])};
      late.push_back(to_ms(r.chunks[i] - sent));
      if (i > 0) gaps.push_back(std::abs(late.back() - late[late.size() - 2]));
    }
  }
  const Distribution lateness = Distribution::of(late), errors = Distribution::of(gaps);
  if (!late.empty() && *std::min_element(late.begin(), late.end()) < 0) {
    std::fprintf(stderr, "an event was read before it was sent\n");
    sound = false;
  }
  std::printf("%-10s %7d  %7.3f %7.3f %7.3f %7.3f  %7.3f %7.3f  %9.0f %%  %7.3f\n",
              schedule.spread ? "spread" : "at once", schedule.streams, lateness.p50, lateness.p90,
              lateness.p99, lateness.max, errors.p50, errors.p99, 100 * result.client_cpu,
              result.lag_ms.p99);
  return sound && late.size() == static_cast<std::size_t>(schedule.streams) *
                                     static_cast<std::size_t>(schedule.num_events());
}

bool measure(const Schedule& schedule) {
  int port = 0;
  const int listener = listen_here(port);
  if (listener < 0) return false;
  const pid_t server = fork();
  if (server == 0) {
    serve(listener, schedule);
    std::_Exit(0);
  }
  close(listener);
  auto generator = LoadGenerator::connect(
      {.server = str("http://127.0.0.1:", port), .fields = Json::Object{{"ignore_eos", true}}},
      schedule.streams + 1);
  bool sound = generator.ok();
  if (sound) {
    sound = report(schedule, generator.value().run(
                                 {.prompts = {.input_len = 1, .output_len = schedule.num_events()},
                                  .concurrency = schedule.streams,
                                  .num_prompts = schedule.streams,
                                  .num_checked = 0}));
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return sound;
}

}  // namespace

int main(int argc, char** argv) {
  Schedule schedule;
  int* const fields[] = {&schedule.streams, &schedule.period_ms, &schedule.seconds};
  for (int i = 1; i < argc; ++i) {
    if (i > 3 || (*fields[i - 1] = std::atoi(argv[i])) < 1) {
      std::fprintf(stderr, "usage: bench_lag [STREAMS [PERIOD_MS [SECONDS]]]\n");
      return 2;
    }
  }
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::printf(
      "                    late ms                        error of gaps\n"
      "           streams      p50     p90     p99     max      p50     p99  generator: CPU  lag "
      "p99\n");
  bool sound = measure(schedule);
  schedule.spread = true;
  return measure(schedule) && sound ? 0 : 1;
}
