#include "cli/json_lines.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/str.h"

namespace glint {
namespace {

Error unreadable(int code) {
  return invalid(str("cannot read standard input: ", std::strerror(code)));
}

Result<std::string> answer_line(const std::string& line, const LineAnswer& answer) {
  GLINT_TRY(const Json json, parse_json(line));
  if (!json.is_object()) return invalid(str("expected an object, found ", json.kind()));
  return answer(json);
}

}  // namespace

std::optional<std::string> LineReader::next() {
  std::size_t searched = at_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != buffer_.npos) return take(end, end + 1);
    searched = buffer_.size();
    if (ended_ || !read_more(searched)) break;
  }
  if (at_ == buffer_.size()) return std::nullopt;
  return take(buffer_.size(), buffer_.size());
}

std::string LineReader::take(std::size_t end, std::size_t next) {
  std::string line = buffer_.substr(at_, end - at_);
  at_ = next;
  return line;
}

bool LineReader::read_more(std::size_t& searched) {
  buffer_.erase(0, at_);
  searched -= at_;
  at_ = 0;
  char bytes[1 << 16];
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  } while (count < 0 && errno == EINTR);
  ended_ = count <= 0;
  if (count < 0) status_ = unreadable(errno);
  if (!ended_) buffer_.append(bytes, static_cast<std::size_t>(count));
  return !ended_;
}

Status answer_json_lines(Console& console, const LineAnswer& answer) {
  LineReader reader;
  while (const std::optional<std::string> line = reader.next()) {
    const Result<std::string> text = answer_line(*line, answer);
    if (text.ok()) {
      console.print(text.value());
    } else {
      const Json error(Json::Object{{"error", text.error().message}});
      console.print(dump_json(error, JsonStyle::kPython));
    }
    console.print("\n");
    if (!reader.has_line()) console.flush();
  }
  return reader.status();
}

Result<std::string> read_stdin() {
  std::string text;
  char bytes[1 << 16];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, stdin))
    text.append(bytes, count);
  if (std::ferror(stdin)) return unreadable(errno);
  return text;
}

}  // namespace glint
