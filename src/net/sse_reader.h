// SseReader: server-sent events (the HTML standard, 9.2.6) out of the pieces of a body, cut
// anywhere.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace glint {

class SseReader {
 public:
  // Gets each event's name (empty if it has none) and its data, lines joined by \n; false ends the
  // reading.
  using OnEvent = std::function<bool(std::string_view event, std::string_view data)>;

  explicit SseReader(OnEvent on_event, std::size_t max_event_bytes = std::size_t{64} << 20);

  // False: on_event ended it, or an event is longer than the limit; what follows is ignored.
  bool feed(std::string_view bytes);

 private:
  bool on_line(std::string_view line);

  OnEvent on_event_;
  const std::size_t max_event_bytes_;
  std::string line_;  // the beginning of a line whose end is not there yet
  std::string event_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a LF that comes next belongs to the line before
  bool first_line_ = true;
  bool ended_ = false;
};

}  // namespace glint
