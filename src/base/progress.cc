#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/str.h"
#include "base/terminal.h"

namespace glint {
namespace {

constexpr std::int64_t kFirstDrawUs = 1'000'000;
constexpr std::int64_t kDrawEveryUs = 100'000;
constexpr std::string_view kEraseLine = "\r\x1b[K";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;  // a bar that cannot be shown is no error
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string amount(double n, Progress::Unit unit) {
  return unit == Progress::Unit::kBytes ? human_bytes(n)
                                        : with_commas(static_cast<std::int64_t>(n));
}

}  // namespace

std::string progress_line(const std::string& title, std::int64_t done, std::int64_t total,
                          Progress::Unit unit, double seconds, int width) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 1;
  const std::string percent = std::to_string(static_cast<int>(share * 100)) + "%";
  std::string tail = str(amount(static_cast<double>(done), unit), " of ",
                         amount(static_cast<double>(total), unit));
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    tail += str(", ", amount(rate, unit), "/s, ",
                duration_text(static_cast<double>(std::max<std::int64_t>(total - done, 0)) / rate),
                " left");
  }
  std::string line = str(title, " ", std::string(5 - percent.size(), ' '), percent, " ");
  const int bar = std::min(width - static_cast<int>(line.size() + tail.size()) - 4, 40);
  if (bar >= 10) {
    const auto filled = static_cast<std::size_t>(share * bar);
    std::string body(filled, '=');
    if (filled < static_cast<std::size_t>(bar)) body += '>';
    body.resize(static_cast<std::size_t>(bar), ' ');
    line += "[" + body + "] ";
  }
  line += tail;
  if (static_cast<int>(line.size()) > width)
    line.resize(static_cast<std::size_t>(std::max(width, 0)));
  return line;
}

Progress::Progress(std::string title, std::int64_t total, Unit unit, int fd)
    : title_(std::move(title)),
      total_(total),
      unit_(unit),
      fd_(fd),
      visible_(is_terminal(fd)),
      start_(std::chrono::steady_clock::now()),
      next_draw_us_(kFirstDrawUs) {}

Progress::~Progress() {
  if (drawn_) write_all(fd_, kEraseLine);
}

void Progress::add(std::int64_t amount) {
  const std::int64_t done = done_.fetch_add(amount, std::memory_order_relaxed) + amount;
  if (!visible_) return;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  const std::int64_t now_us =
      std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count();
  std::int64_t due = next_draw_us_.load(std::memory_order_relaxed);
  // Whoever moves the time of the next drawing draws; the others go on.
  if (now_us >= due && next_draw_us_.compare_exchange_strong(due, now_us + kDrawEveryUs)) {
    draw(done, now_us);
  }
}

void Progress::draw(std::int64_t done, std::int64_t now_us) {
  // One column is left free: some terminals wrap when the last one is written.
  const std::string line = progress_line(
      title_, done, total_, unit_, static_cast<double>(now_us) / 1e6, terminal_width(fd_) - 1);
  drawn_ = true;
  write_all(fd_, str(kEraseLine, line));
}

}  // namespace glint
