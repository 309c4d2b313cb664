// How many streams of tokens an HttpServer carries: a process that serves N streams of one event
// each P milliseconds, all in one burst as an engine's step makes them, and another that reads
// them and measures the gaps between the events of a stream.
//
//   sse_load [--streams 2000] [--period-ms 20] [--seconds 10] [--bytes 200]
//
// Fails if an event is lost. Times are reported, never judged: compare them within one run of one
// machine, with the CPU shares of both processes and the load that are printed beside them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/seconds.h"
#include "base/statistics.h"
#include "net/http_server.h"

namespace {

using namespace glint;
using Clock = std::chrono::steady_clock;

struct Options {
  int streams = 2000;
  int period_ms = 20;
  int seconds = 10;
  int bytes = 200;  // of an event
  int num_events() const { return seconds * 1000 / period_ms; }
};

struct ServerReport {
  double cpu_seconds = 0;
  double late_ms = 0;  // the latest burst, after its time
  long rss_kib_before = 0, rss_kib = 0;
};

long rss_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

// The served side: waits until all streams are there, then writes to each at every tick.
int run_server(const Options& options, int out) {
  std::mutex mutex;
  std::vector<HttpExchange> streams;
  auto server = HttpServer::start({}, [&](const HttpRequest&, HttpExchange exchange) {
    exchange.begin_stream(200, {{"content-type", "text/event-stream"}});
    const std::lock_guard lock(mutex);
    streams.push_back(std::move(exchange));
  });
  if (!server.ok()) return 1;
  ServerReport report;
  report.rss_kib_before = rss_kib();
  const int port = server.value()->port();
  if (write(out, &port, sizeof port) != sizeof port) return 1;
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (static_cast<int>(streams.size()) == options.streams) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string event =
      "data: " + std::string(static_cast<std::size_t>(std::max(options.bytes - 8, 0)), 'x') +
      "\n\n";
  const double cpu_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  auto tick = Clock::now();
  for (int i = 0; i < options.num_events(); ++i) {
    tick += std::chrono::milliseconds(options.period_ms);
    std::this_thread::sleep_until(tick);
    report.late_ms = std::max(
        report.late_ms, std::chrono::duration<double, std::milli>(Clock::now() - tick).count());
    for (HttpExchange& stream : streams) stream.write(event);
    if (i == options.num_events() / 2) report.rss_kib = rss_kib();
  }
  report.cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
  for (HttpExchange& stream : streams) stream.finish();
  if (write(out, &report, sizeof report) != sizeof report) return 1;
  char byte;
  while (read(out, &byte, 1) > 0) {  // until the reader has all
  }
  return 0;
}

struct Stream {
  int fd = -1;
  int num_events = 0;
  bool after_newline = false;
  Clock::time_point last = {};
};

int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return -1;
  const char request[] = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
  return send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 ? fd : -1;
}

// Reads what is there; false at the end of the stream. Events end in an empty line.
bool read_events(Stream& stream, std::vector<float>& gaps) {
  char bytes[16 << 10];
  for (;;) {
    const ssize_t n = recv(stream.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN;
    const auto now = Clock::now();
    for (ssize_t i = 0; i < n; ++i) {
      if (bytes[i] == '\n' && stream.after_newline) {
        if (stream.num_events++ > 0) {
          gaps.push_back(std::chrono::duration<float, std::milli>(now - stream.last).count());
        }
        stream.last = now;
      }
      stream.after_newline = bytes[i] == '\n';
    }
    if (n < static_cast<ssize_t>(sizeof bytes)) return true;
  }
}

int run_generator(const Options& options, int in) {
  int port = 0;
  if (read(in, &port, sizeof port) != sizeof port) return 1;
  const int poller = epoll_create1(0);
  std::vector<Stream> streams(static_cast<std::size_t>(options.streams));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i].fd = connect_to(port);
    if (streams[i].fd < 0) {
      std::fprintf(stderr, "stream %zu: %s\n", i, std::strerror(errno));
      return 1;
    }
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(poller, EPOLL_CTL_ADD, streams[i].fd, &event);
  }
  std::vector<float> gaps;
  gaps.reserve(streams.size() * static_cast<std::size_t>(options.num_events()));
  const double cpu_before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const auto begin = Clock::now();
  for (int open = options.streams; open > 0;) {
    epoll_event ready[512];
    const int n = epoll_wait(poller, ready, 512, 60'000);
    if (n == 0) break;
    for (int i = 0; i < n; ++i) {
      Stream& stream = streams[ready[i].data.u64];
      if (read_events(stream, gaps)) continue;
      close(stream.fd);
      --open;
    }
  }
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
  ServerReport report;
  if (read(in, &report, sizeof report) != sizeof report || gaps.empty()) return 1;
  shutdown(in, SHUT_RDWR);
  const auto lost = std::count_if(streams.begin(), streams.end(), [&](const Stream& s) {
    return s.num_events != options.num_events();
  });
  double load = 0;
  getloadavg(&load, 1);
  std::printf("%d streams, an event of %d bytes each %d ms, %zu gaps, %ld streams incomplete\n",
              options.streams, options.bytes, options.period_ms, gaps.size(),
              static_cast<long>(lost));
  std::printf(
      "gap ms: p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f   (latest burst: %.1f late)\n",
      quantile(gaps, 0.5), quantile(gaps, 0.9), quantile(gaps, 0.99), quantile(gaps, 0.999),
      quantile(gaps, 1), report.late_ms);
  std::printf("server: %.0f %% of a core, %.1f MiB (%.1f before the streams)\n",
              100 * report.cpu_seconds / wall, static_cast<double>(report.rss_kib) / 1024,
              static_cast<double>(report.rss_kib_before) / 1024);
  std::printf("reader: %.0f %% of a core; load of the machine %.1f on %u CPUs\n", 100 * cpu / wall,
              load, std::thread::hardware_concurrency());
  return lost ? 1 : 0;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    int* field = name == "--streams"     ? &options.streams
                 : name == "--period-ms" ? &options.period_ms
                 : name == "--seconds"   ? &options.seconds
                 : name == "--bytes"     ? &options.bytes
                                         : nullptr;
    if (!field || i + 1 >= argc) return false;
    const std::string value = argv[i + 1];
    if (std::from_chars(value.data(), value.data() + value.size(), *field).ec != std::errc() ||
        *field < 1)
      return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: sse_load [--streams N] [--period-ms P] [--seconds S] [--bytes B]\n");
    return 2;
  }
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    return run_server(options, ends[1]);
  }
  close(ends[1]);
  const int result = run_generator(options, ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return result ? result : status;
}
