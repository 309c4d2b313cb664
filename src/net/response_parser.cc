#include "net/response_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/str.h"
#include "net/chunk_line.h"

namespace glint {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

constexpr std::size_t kMaxHeadBytes = 256 << 10;

std::string_view view(string_view text) { return {text.data(), text.size()}; }

}  // namespace

class ResponseParser::Message : public http::basic_parser<false> {
 public:
  explicit Message(const Options& options) : options_(options) {
    header_limit(kMaxHeadBytes);
    body_limit(boost::none);
    skip(options.head);
  }

  HttpResponse response;
  bool ended_by_caller = false, too_long = false;

  bool at_chunk_line() const { return is_header_done() && chunked() && chunk_left_ == 0; }
  bool at_first_chunk() const { return first_chunk_; }

 private:
  void on_response_impl(int code, string_view, int, error_code&) override {
    response.status = code;
  }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    response.headers.emplace_back(lower(view(name)), std::string(view(value)));
  }
  std::size_t on_body(string_view bytes, error_code& ec) {
    if (options_.on_piece && response.status / 100 == 2) {
      ended_by_caller = ended_by_caller || !options_.on_piece(view(bytes));
    } else if (response.body.size() + bytes.size() > options_.max_body_bytes) {
      too_long = true;
      ec = http::error::body_limit;
    } else {
      response.body.append(view(bytes));
    }
    return bytes.size();
  }
  std::size_t on_body_impl(string_view bytes, error_code& ec) override {
    return on_body(bytes, ec);
  }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code& ec) override {
    chunk_left_ -= bytes.size();
    return on_body(bytes, ec);
  }
  void on_request_impl(http::verb, string_view, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t size, string_view, error_code&) override {
    chunk_left_ = size;
    first_chunk_ = false;
  }
  void on_finish_impl(error_code&) override {}

  const Options& options_;
  std::uint64_t chunk_left_ = 0;  // of the chunk that arrives
  bool first_chunk_ = true;
};

ResponseParser::ResponseParser(Options options)
    : options_(std::move(options)), message_(std::make_unique<Message>(options_)) {}
ResponseParser::~ResponseParser() = default;

Status ResponseParser::feed(std::string_view bytes) {
  buffer_ += bytes;
  GLINT_TRY_STATUS(put());
  // "100 Continue" and its like stand before the answer.
  while (message_->is_done() && message_->response.status / 100 == 1) {
    message_ = std::make_unique<Message>(options_);
    GLINT_TRY_STATUS(put());
  }
  return Ok{};
}

Status ResponseParser::put() {
  std::size_t used = 0;
  while (!done() && used < buffer_.size()) {
    const std::string_view rest = std::string_view(buffer_).substr(used);
    if (message_->at_chunk_line()) {
      const ChunkLine line = look_at_chunk_line(rest, message_->at_first_chunk());
      if (line.state == ChunkLine::State::kBad) {
        return invalid("the answer is not valid HTTP: the line of a chunk's size is malformed");
      }
      if (line.state == ChunkLine::State::kNeedMore) break;
      // Fields may follow the last chunk, to an empty line.
      if (line.last && rest.find("\r\n\r\n", line.end) == rest.npos) {
        if (rest.size() <= kMaxHeadBytes) break;
        return invalid("the answer is not valid HTTP: too much follows its last chunk");
      }
    }
    error_code ec;
    used += message_->put(boost::asio::buffer(rest.data(), rest.size()), ec);
    if (message_->too_long) {
      return invalid(str("the answer is longer than ", options_.max_body_bytes, " bytes"));
    }
    if (ec == http::error::need_more && buffer_.size() - used <= kMaxHeadBytes) break;
    if (ec) return invalid("the answer is not valid HTTP: " + ec.message());
  }
  buffer_.erase(0, used);
  return Ok{};
}

Status ResponseParser::feed_end() {
  error_code ec;
  if (message_->got_some() && buffer_.empty()) message_->put_eof(ec);
  if (!message_->is_done()) {
    return Error{ErrorCode::kUnavailable, message_->got_some()
                                              ? "the connection was closed within the answer"
                                              : "the connection was closed without an answer"};
  }
  return Ok{};
}

bool ResponseParser::done() const { return message_->ended_by_caller || message_->is_done(); }

bool ResponseParser::keep_alive() const {
  return message_->is_done() && message_->keep_alive() && buffer_.empty();
}

HttpResponse ResponseParser::take() { return std::move(message_->response); }

}  // namespace glint
