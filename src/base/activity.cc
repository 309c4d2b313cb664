#include "base/activity.h"

#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

namespace glint {
namespace {

// A recording that nobody ends must not fill the memory: 40 bytes each.
constexpr std::size_t kMaxEvents = std::size_t{1} << 22;

}  // namespace

void Activity::begin(const char* what, int layer) {
  layer_.store(layer, std::memory_order_relaxed);
  what_.store(what, std::memory_order_relaxed);
  if (!recording_) return;
  close_event();
  if (events_.size() == kMaxEvents) return;
  events_.push_back({.what = what,
                     .layer = layer,
                     .num_tokens = num_tokens_.load(std::memory_order_relaxed),
                     .step = step_.load(std::memory_order_relaxed),
                     .begin = Clock::now()});
  open_ = true;
}

void Activity::end() {
  what_.store(nullptr, std::memory_order_relaxed);
  if (recording_) close_event();
}

void Activity::set_step(std::uint64_t step, int num_tokens) {
  step_.store(step, std::memory_order_relaxed);
  num_tokens_.store(num_tokens, std::memory_order_relaxed);
}

void Activity::close_event() {
  if (!open_) return;
  if (wait_) wait_();
  events_.back().end = Clock::now();
  open_ = false;
}

Activity::Pause::Pause(Activity& activity) : activity_(activity), recorded_(activity.recording_) {
  if (recorded_) activity.close_event();
  activity.recording_ = false;
}

void Activity::start_recording(std::function<void()> wait) {
  wait_ = std::move(wait);
  events_.clear();
  open_ = false;
  recording_ = true;
  start_ = Clock::now();
}

Status Activity::write_recording(const std::string& path) {
  close_event();
  recording_ = false;
  wait_ = {};
  std::string text = "{\"traceEvents\":[";
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const auto microseconds = [](Clock::duration d) {
      return std::chrono::duration<double, std::micro>(d).count();
    };
    text += i ? ",\n" : "\n";
    text += "{\"name\":";
    append_json_string(text, event.what);
    text += formatted(
        ",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%"
        "llu,\"tokens\":%d",
        microseconds(event.begin - start_), microseconds(event.end - event.begin),
        static_cast<unsigned long long>(event.step), event.num_tokens);
    if (event.layer >= 0) text += str(",\"layer\":", event.layer);
    text += "}}";
  }
  text += "\n],\"displayTimeUnit\":\"ms\"}\n";
  events_ = {};
  return write_file_atomic(path, text);
}

std::string Activity::describe() const {
  const char* what = what_.load(std::memory_order_relaxed);
  return what ? describe_last() : "idle";
}

std::string Activity::describe_last() const {
  const char* what = what_.load(std::memory_order_relaxed);
  const int layer = layer_.load(std::memory_order_relaxed);
  std::string doing;
  if (what) doing = str(layer >= 0 ? str("layer ", layer, ": ") : "", what, ", ");
  return str("step ", step_.load(std::memory_order_relaxed), ", ", doing,
             num_tokens_.load(std::memory_order_relaxed), " tokens");
}

}  // namespace glint
