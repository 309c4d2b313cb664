// Progress: a bar on stderr for what takes longer than a second, when stderr is a terminal;
// otherwise it is silent.
//
//   Progress progress("packing weights", total_bytes, Progress::Unit::kBytes);
//   ... progress.add(tensor_bytes);  // from any thread
//
//   packing weights  43% [===========>               ] 1.2 GiB of 2.8 GiB, 640 MiB/s, 3 s left
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace glint {

class Progress {
 public:
  enum class Unit { kItems, kBytes };

  // Draws to file descriptor `fd`, 10 times a second at most, first after a second.
  Progress(std::string title, std::int64_t total, Unit unit, int fd = 2);
  ~Progress();  // erases the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::int64_t amount);

 private:
  void draw(std::int64_t done, std::int64_t now_us);

  const std::string title_;
  const std::int64_t total_;
  const Unit unit_;
  const int fd_;
  const bool visible_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<std::int64_t> done_{0};
  std::atomic<std::int64_t> next_draw_us_;  // since start_
  std::atomic<bool> drawn_{false};
};

// The bar's text, `width` columns at most: `done` of `total` after `seconds`.
std::string progress_line(const std::string& title, std::int64_t done, std::int64_t total,
                          Progress::Unit unit, double seconds, int width);

}  // namespace glint
