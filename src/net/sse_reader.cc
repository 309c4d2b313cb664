#include "net/sse_reader.h"

#include <utility>

namespace glint {

SseReader::SseReader(OnEvent on_event, std::size_t max_event_bytes)
    : on_event_(std::move(on_event)), max_event_bytes_(max_event_bytes) {}

bool SseReader::feed(std::string_view bytes) {
  while (!ended_ && !bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes[0] == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    if (line_.size() + data_.size() + bytes.substr(0, end).size() > max_event_bytes_) {
      ended_ = true;
      break;
    }
    line_ += bytes.substr(0, end);
    if (end == bytes.npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    ended_ = !on_line(line_);
    line_.clear();
  }
  return !ended_;
}

bool SseReader::on_line(std::string_view line) {
  if (std::exchange(first_line_, false) && line.substr(0, 3) == "\xef\xbb\xbf") {
    line.remove_prefix(3);  // a byte order mark
  }
  if (line.empty()) {
    const bool has_data = std::exchange(has_data_, false);
    const std::string event = std::exchange(event_, {}), data = std::exchange(data_, {});
    return !has_data || on_event_(event, data);
  }
  const std::string_view name = line.substr(0, line.find(':'));
  std::string_view value = name.size() < line.size() ? line.substr(name.size() + 1) : "";
  if (!value.empty() && value[0] == ' ') value.remove_prefix(1);
  if (name == "event") event_ = value;
  if (name == "data") {
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
  return true;
}

}  // namespace glint
