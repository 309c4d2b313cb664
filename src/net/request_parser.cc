#include "net/request_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>
#include <vector>

#include "base/str.h"
#include "net/chunk_line.h"
#include "net/request_target.h"

namespace glint {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

// Clients send about ten; each costs more memory than its text.
constexpr std::size_t kMaxFields = 100;

bool is_token_char(char c) {
  return is_alnum(c) ||
         (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

// Whether the first line of `head` has three parts and the last one is "HTTP/...".
bool names_a_version(std::string_view head) {
  const std::vector<std::string_view> parts = split(head.substr(0, head.find('\r')), ' ');
  return parts.size() == 3 && parts[2].substr(0, 5) == "HTTP/";
}

std::string_view view(string_view text) { return {text.data(), text.size()}; }

}  // namespace

// Keeps the reports of Beast's parser.
class RequestParser::Message : public http::basic_parser<true> {
 public:
  HttpRequest request;
  std::string target;
  int version = 11;

  bool at_chunk_line() const { return chunked() && chunk_left_ == 0; }
  bool at_first_chunk() const { return first_chunk_; }

 private:
  void on_request_impl(http::verb, string_view method, string_view target_text, int version_number,
                       error_code&) override {
    request.method = view(method);
    target = view(target_text);
    version = version_number;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override {
    if (request.headers.size() >= kMaxFields) {
      ec = http::error::header_limit;
    } else {
      request.headers.emplace_back(lower(view(name)), std::string(view(value)));
    }
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    request.body.append(view(bytes));
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, string_view, error_code&) override {
    chunk_left_ = size;
    first_chunk_ = false;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    chunk_left_ -= bytes.size();
    request.body.append(view(bytes));
    return bytes.size();
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::uint64_t chunk_left_ = 0;  // of the chunk that arrives
  bool first_chunk_ = true;
};

RequestParser::RequestParser(const HttpLimits& limits) : limits_(limits) {}
RequestParser::~RequestParser() = default;
RequestParser& RequestParser::operator=(RequestParser&& other) noexcept = default;

std::size_t RequestParser::body_bytes() const {
  return message_ ? message_->request.body.size() : 0;
}

HttpRequest RequestParser::head() const {
  if (!message_) return {};
  return {.method = message_->request.method, .path = path_, .headers = message_->request.headers};
}

bool RequestParser::take_expectation() { return std::exchange(expectation_, false); }

bool RequestParser::refuse(int status, std::string reason) {
  status_ = status;
  reason_ = std::move(reason);
  // A head may be refused before its target is looked at.
  if (message_ && path_.empty()) {
    if (Result<RequestTarget> target = parse_target(message_->target); target.ok())
      path_ = std::move(target.value().path);
  }
  return false;
}

RequestParser::Progress RequestParser::parse() {
  if (status_ != 0) return Progress::kRefused;
  if (!message_) {
    if (!find_end_of_head()) return status_ ? Progress::kRefused : Progress::kNeedMore;
    if (!read_head()) return Progress::kRefused;
  }
  if (!read_body()) return Progress::kRefused;
  return message_->is_done() ? Progress::kRequest : Progress::kNeedMore;
}

// Looks for the empty line, and at every byte before it. True: the head is in buffer_[0, scanned_).
bool RequestParser::find_end_of_head() {
  if (scanned_ == 0) buffer_.erase(0, std::min(buffer_.find_first_not_of("\r\n"), buffer_.size()));
  for (; scanned_ < buffer_.size(); ++scanned_) {
    const char c = buffer_[scanned_];
    const char before = scanned_ ? buffer_[scanned_ - 1] : 0;
    if (scanned_ == 0 && !is_token_char(c)) return refuse(400, "this is not an HTTP request");
    if ((c == '\n') != (before == '\r')) {
      return refuse(400, "a line of the head does not end in CR LF");
    }
    if (c == '\n') {
      if (scanned_ - line_ == 1) {
        ++scanned_;
        return scanned_ <= limits_.max_header_bytes || too_long();
      }
      line_ = scanned_ + 1;
    } else if (scanned_ == line_ && (c == ' ' || c == '\t')) {
      return refuse(400, "a line of the head begins with a blank");
    } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') || c == 0x7f) {
      return refuse(400, "the head has control characters");
    }
  }
  if (scanned_ > limits_.max_header_bytes) return too_long();
  return false;
}

bool RequestParser::too_long() {
  if (line_ == 0) {
    return refuse(414, str("the first line is longer than ", limits_.max_header_bytes, " bytes"));
  }
  return refuse(431, str("the head is longer than ", limits_.max_header_bytes, " bytes"));
}

bool RequestParser::body_too_long() {
  return refuse(413, str("the body is longer than ", limits_.max_body_bytes, " bytes",
                         limits_.body_bound.empty() ? "" : str(" (", limits_.body_bound, ")")));
}

bool RequestParser::read_head() {
  message_ = std::make_unique<Message>();
  message_->header_limit(static_cast<std::uint32_t>(limits_.max_header_bytes + 1));
  message_->body_limit(limits_.max_body_bytes);
  error_code ec;
  const std::size_t used = message_->put(boost::asio::buffer(buffer_.data(), scanned_), ec);
  if (ec == http::error::body_limit) {
    return body_too_long();
  }
  if (ec == http::error::header_limit) {
    return refuse(431, str("the head has more than ", kMaxFields, " fields"));
  }
  if (ec == http::error::bad_version && names_a_version(buffer_)) {
    return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  if (ec || !message_->is_header_done() || used != scanned_) {
    return refuse(400, str("the head is no valid HTTP: ", ec ? ec.message() : "it has two ends"));
  }
  buffer_.erase(0, used);
  scanned_ = line_ = 0;
  return check_fields();
}

// Refuses heads that the grammar allows and a server must not accept.
bool RequestParser::check_fields() {
  HttpRequest& request = message_->request;
  int hosts = 0, lengths = 0, codings = 0;
  bool chunked = false;
  std::string* host = nullptr;
  for (auto& [name, value] : request.headers) {
    if (name == "host") ++hosts, host = &value;
    if (name == "content-length") {
      ++lengths;
      if (value.empty() || value.find_first_not_of("0123456789") != value.npos) {
        return refuse(400, str("the content-length ", quoted(value), " is no number"));
      }
    }
    if (name == "transfer-encoding") ++codings, chunked = lower(trimmed(value, " \t")) == "chunked";
    if (name == "expect") {
      if (lower(value) != "100-continue") {
        return refuse(417, str("the expectation ", quoted(value), " is not known here"));
      }
      expectation_ = true;
    }
  }
  http_1_0_ = message_->version < 11;
  keep_alive_ = message_->keep_alive();
  if (lengths > 1) return refuse(400, "there are two content-lengths");
  if (lengths && codings) return refuse(400, "there are a content-length and a transfer-encoding");
  if (codings && http_1_0_) return refuse(400, "HTTP/1.0 has no transfer-encoding");
  if (codings > 1 || (codings && !chunked)) {
    return refuse(501, "of transfer-encodings only chunked is known here");
  }
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    return refuse(400, hosts ? "there are two host fields" : "there is no host field");
  }
  if (host && !host->empty() && !is_authority(*host)) {
    return refuse(400, str("the host ", quoted(*host), " is none"));
  }
  if (message_->target.size() > limits_.max_target_bytes) {
    return refuse(414, str("the path is longer than ", limits_.max_target_bytes, " bytes"));
  }
  Result<RequestTarget> target = parse_target(message_->target);
  if (!target.ok()) return refuse(400, target.error().message);
  if (target.value().path == "*" && request.method != "OPTIONS") {
    return refuse(400, "only OPTIONS has the target *");
  }
  if (host && !target.value().authority.empty()) *host = target.value().authority;
  request.path = path_ = target.value().path;
  request.query = std::move(target.value().query);
  expectation_ = expectation_ && !http_1_0_ && !message_->is_done();
  return true;
}

// `rest` begins where a chunk's line does. Gives the line as Beast shall see it, and how many bytes
// it stands for: 0 if there are more to come. False: refused.
bool RequestParser::read_chunk_line(std::string_view rest, std::size_t& bytes, std::string& plain) {
  const bool first = message_->at_first_chunk();
  const ChunkLine line = look_at_chunk_line(rest, first);
  if (line.state == ChunkLine::State::kBad) {
    return refuse(400, "the line of a chunk's size is malformed");
  }
  if (line.state == ChunkLine::State::kNeedMore) return true;
  std::size_t end = line.end + 2;
  if (line.last) {
    const Trailers trailers = look_at_trailers(rest.substr(end));
    if (trailers.state == ChunkLine::State::kBad) {
      return refuse(400, "the fields behind the chunked body are malformed");
    }
    const bool whole = trailers.state == ChunkLine::State::kWhole;
    if ((whole ? trailers.bytes : rest.size() - end) > limits_.max_header_bytes) {
      return refuse(431, str("the fields behind the body are longer than ",
                             limits_.max_header_bytes, " bytes"));
    }
    if (!whole) return true;
    end += trailers.bytes;
  }
  bytes = end;
  plain = str(first ? "" : "\r\n", line.size, line.last ? "\r\n\r\n" : "\r\n");
  return true;
}

bool RequestParser::read_body() {
  std::size_t used = 0;
  while (!message_->is_done() && used < buffer_.size()) {
    expectation_ = false;  // the peer did not wait
    const std::string_view rest = std::string_view(buffer_).substr(used);
    error_code ec;
    if (message_->at_chunk_line()) {
      std::size_t bytes = 0;
      std::string plain;
      if (!read_chunk_line(rest, bytes, plain)) return false;
      if (bytes == 0) break;
      message_->put(boost::asio::buffer(plain), ec);
      used += bytes;
    } else {
      used += message_->put(boost::asio::buffer(rest.data(), rest.size()), ec);
    }
    if (ec == http::error::body_limit) {
      return body_too_long();
    }
    if (ec) return refuse(400, "the chunked body is malformed: " + ec.message());
  }
  buffer_.erase(0, used);
  return true;
}

HttpRequest RequestParser::take() {
  HttpRequest request = std::move(message_->request);
  message_.reset();
  path_.clear();
  expectation_ = false;
  return request;
}

}  // namespace glint
