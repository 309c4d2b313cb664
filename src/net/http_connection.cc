#include "net/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr double kForever = 1e9;      // seconds
constexpr double kLingerSeconds = 2;  // for the peer to read our last answer
constexpr std::size_t kSmallRead = 2 << 10, kLargeRead = 64 << 10;
constexpr std::size_t kMaxDiscarded = std::size_t{16} << 20;  // read after our last answer
constexpr std::size_t kKeptCapacity = 64 << 10;

std::string peer_name(asio::ip::tcp::socket& socket) {
  error_code ec;
  const auto end = socket.remote_endpoint(ec);
  if (ec) return "";
  auto address = end.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {  // what an IPv6 socket sees of IPv4
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  const std::string text = address.to_string();
  return (address.is_v6() ? "[" + text + "]" : text) + ":" + std::to_string(end.port());
}

// Whether the peer has closed its side behind bytes that nobody has read yet.
bool has_hung_up(int fd) {
  pollfd entry = {.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

// Logs exceptions of the user's functions: nothing may leave the io thread.
template <class Fn>
void guarded(const char* what, Fn&& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    GLINT_LOG(kError, str(what, " threw: ", e.what()));
  } catch (...) {
    GLINT_LOG(kError, str(what, " threw"));
  }
}

}  // namespace

HttpConnection::HttpConnection(ConnectionHost& host, asio::ip::tcp::socket socket,
                               asio::ssl::context* tls)
    : host_(host),
      stream_(std::move(socket), tls),
      peer_(peer_name(stream_.socket())),
      parser_(host.options.limits),
      read_buffer_(kSmallRead, '\0') {}

HttpConnection::~HttpConnection() = default;

void HttpConnection::enter(Phase phase, double seconds) {
  phase_ = phase;
  deadline_ = seconds >= kForever ? Clock::time_point::max() : Clock::now() + from_seconds(seconds);
}

void HttpConnection::start() {
  if (stream_.tls()) {
    enter(Phase::kHandshake, host_.options.limits.header_seconds);
    spawn(handshake());
  } else {
    enter(Phase::kIdle, host_.options.limits.idle_seconds);
    read_on();
  }
}

void HttpConnection::start_refused(int status, const std::string& reason) {
  if (stream_.tls()) return close();  // a handshake would cost more than is left
  refuse(status, reason);
}

void HttpConnection::spawn(asio::awaitable<void> task) {
  asio::co_spawn(stream_.socket().get_executor(), std::move(task),
                 [self = shared_from_this()](const std::exception_ptr& thrown) {
                   if (thrown) self->close();
                 });
}

asio::awaitable<void> HttpConnection::handshake() {
  const auto [ec] = co_await stream_.tls()->async_handshake(asio::ssl::stream_base::server,
                                                            asio::as_tuple(asio::use_awaitable));
  if (phase_ == Phase::kClosed) co_return;
  if (ec) {
    close();
    co_return;
  }
  enter(Phase::kIdle, host_.options.limits.idle_seconds);
  read_on();
}

// A peer that sends requests far ahead of their answers is read no further.
bool HttpConnection::paused() const {
  return phase_ == Phase::kAnswering &&
         parser_.waiting_bytes() >= host_.options.limits.max_header_bytes;
}

void HttpConnection::read_on() {
  if (reading_ || peer_closed_ || paused() || phase_ == Phase::kClosed) return;
  reading_ = true;
  spawn(read_loop());
}

asio::awaitable<void> HttpConnection::read_loop() {
  while (phase_ != Phase::kClosed && !paused()) {
    const auto [ec, n] = co_await stream_.async_read_some(asio::buffer(read_buffer_),
                                                          asio::as_tuple(asio::use_awaitable));
    if (phase_ == Phase::kClosed) break;
    if (ec) {
      reading_ = false;
      on_peer_closed();
      co_return;
    }
    on_bytes(n);
  }
  reading_ = false;
}

void HttpConnection::on_bytes(std::size_t n) {
  if (phase_ == Phase::kRefusing || phase_ == Phase::kLingering) {
    counted_.discarded += n;
    if (counted_.discarded > kMaxDiscarded) close();
    return;
  }
  try {
    parse_bytes(n);
  } catch (const std::bad_alloc&) {
    parser_ = RequestParser(host_.options.limits);  // frees what it holds
    if (phase_ == Phase::kAnswering) return close();
    refuse(503, "the server is out of memory; try again later");
  }
}

void HttpConnection::parse_bytes(std::size_t n) {
  parser_.append(std::string_view(read_buffer_).substr(0, n));
  if (phase_ != Phase::kAnswering) advance();
  const bool large = phase_ == Phase::kBody && n == read_buffer_.size();
  if (large && n < kLargeRead) read_buffer_.resize(kLargeRead);
  if (phase_ != Phase::kBody && read_buffer_.size() > kSmallRead) {
    read_buffer_ = std::string(kSmallRead, '\0');
  }
}

void HttpConnection::on_peer_closed() {
  peer_closed_ = true;
  const bool last_words =
      phase_ == Phase::kRefusing ||
      (phase_ == Phase::kAnswering && writing_ && answer_ == ExchangeState::Phase::kComplete);
  if (!last_words) close();
}

// Reads the next request as far as its bytes are there. Not while another one is answered.
void HttpConnection::advance() {
  switch (parser_.parse()) {
    case RequestParser::Progress::kRefused:
      refuse(parser_.status(), parser_.reason());
      break;
    case RequestParser::Progress::kRequest:
      if (!account_body(parser_.body_bytes())) {
        return refuse(503, "the server is busy with the bodies of other requests");
      }
      dispatch();
      break;
    case RequestParser::Progress::kNeedMore:
      wait_for_more();
      break;
  }
}

void HttpConnection::wait_for_more() {
  const HttpLimits& limits = host_.options.limits;
  if (!account_body(parser_.body_bytes())) {
    return refuse(503, "the server is busy with the bodies of other requests");
  }
  if (parser_.take_expectation()) write("HTTP/1.1 100 Continue\r\n\r\n");
  if (parser_.has_head()) {
    if (phase_ != Phase::kBody) enter(Phase::kBody, limits.body_seconds);
  } else if (parser_.started()) {
    if (phase_ != Phase::kHead) enter(Phase::kHead, limits.header_seconds);
  } else {
    if (host_.outbox->draining) return linger();
    enter(Phase::kIdle, limits.idle_seconds);
  }
  read_on();
}

// Counts the bytes of a body against what all connections may hold together.
bool HttpConnection::account_body(std::size_t bytes) {
  const std::size_t total = *host_.body_bytes += bytes - counted_.body;
  counted_.body = bytes;
  return total <= host_.options.limits.max_total_body_bytes;
}

// Counted bytes stay counted until the last copy of their request is gone.
std::shared_ptr<const void> HttpConnection::hand_over_account() {
  const std::size_t bytes = std::exchange(counted_.body, 0);
  return {nullptr, [total = host_.body_bytes, bytes](std::nullptr_t) { *total -= bytes; }};
}

void HttpConnection::dispatch() {
  HttpRequest request = parser_.take();
  request.peer = peer_;
  request.body_account = hand_over_account();
  answered_ = {.method = request.method, .path = request.path, .headers = request.headers};
  head_only_ = request.method == "HEAD";
  exchange_ = std::make_shared<ExchangeState>(
      host_.outbox,
      ExchangeState::Form{
          .head = head_only_, .http_1_0 = parser_.http_1_0(), .keep_alive = parser_.keep_alive()},
      host_.options.limits.max_stream_buffer);
  exchange_->connection = this;
  answer_ = ExchangeState::Phase::kUnanswered;
  enter(Phase::kAnswering, kForever);
  guarded("the handler of requests",
          [&] { host_.handler(std::move(request), exchange_->handle()); });
  read_on();
}

HttpResponse HttpConnection::page_of(const HttpRefusal& refusal) const {
  HttpResponse response = {.status = refusal.status, .headers = {{"content-type", "text/plain"}}};
  response.body = refusal.reason + "\n";
  if (host_.options.error_page) {
    guarded("the maker of error pages", [&] { response = host_.options.error_page(refusal); });
    response.status = refusal.status;
  }
  return response;
}

// The last answer of this connection: the server's own.
void HttpConnection::refuse(int status, const std::string& reason) {
  account_body(0);
  if (answered_.path.empty()) answered_ = parser_.head();
  answered_.peer = peer_;
  if (exchange_) exchange_->connection = nullptr;
  exchange_.reset();
  enter(Phase::kRefusing, kForever);
  const HttpResponse response =
      page_of({.status = status, .reason = reason, .request = std::exchange(answered_, {})});
  std::string bytes =
      format_head({.status = status,
                   .headers = response.headers,
                   .length = "content-length: " + std::to_string(response.body.size()) + "\r\n",
                   .keep_alive = false});
  if (!head_only_) bytes += response.body;
  write(std::move(bytes));
  parser_ =
      RequestParser(host_.options.limits);  // its body counts no more; `reason` may be its own
  read_on();
}

void HttpConnection::flush() {
  if (phase_ != Phase::kAnswering) return;
  if (writing_) {
    if (exchange_->look(counted_.waiting) == ExchangeState::Phase::kBroken) return cut();
    count_unread();
    return bound_unread();
  }
  counted_.waiting = 0;
  answer_ = exchange_->take(out_);
  if (answer_ == ExchangeState::Phase::kBroken) return cut();
  if (answer_ == ExchangeState::Phase::kAbandoned) {
    return refuse(500, "the request was dropped without an answer");
  }
  if (!out_.empty()) {
    write_some();
    return bound_unread();
  }
  if (answer_ == ExchangeState::Phase::kComplete) on_answered();
}

void HttpConnection::count_unread() {
  if (counted_.unread == 0) out_begun_ = Clock::now();
  const std::size_t unread =
      phase_ == Phase::kClosed ? 0 : out_.size() - out_sent_ + counted_.waiting;
  host_.unread_bytes += unread - counted_.unread;
  counted_.unread = unread;
}

// Clients that read a little now and then would otherwise hold any number of answers for ever.
void HttpConnection::bound_unread() {
  while (host_.unread_bytes > host_.options.limits.max_total_body_bytes) {
    const auto is_slower = [](const auto& a, const auto& b) {
      if ((a->counted_.unread == 0) != (b->counted_.unread == 0)) return b->counted_.unread == 0;
      return a->out_begun_ < b->out_begun_;
    };
    const auto slowest = *std::ranges::min_element(host_.connections, is_slower);
    slowest->cut();
  }
}

void HttpConnection::write(std::string bytes) {
  if (writing_) {
    next_out_ += bytes;
    return;
  }
  out_ = std::move(bytes);
  write_some();
}

void HttpConnection::write_some() {
  writing_ = true;
  count_unread();
  write_deadline_ = Clock::now() + from_seconds(host_.options.limits.write_seconds);
  stream_.async_write_some(asio::buffer(out_.data() + out_sent_, out_.size() - out_sent_),
                           [self = shared_from_this()](const error_code& ec, std::size_t n) {
                             if (self->phase_ == Phase::kClosed) return;
                             if (ec) return self->close();
                             self->on_written(n);
                           });
}

void HttpConnection::on_written(std::size_t n) {
  out_sent_ += n;
  if (out_sent_ < out_.size()) return write_some();
  writing_ = false;
  out_sent_ = 0;
  out_.clear();
  count_unread();
  if (out_.capacity() > kKeptCapacity) out_.shrink_to_fit();
  if (!next_out_.empty()) {
    out_.swap(next_out_);
    return write_some();
  }
  if (phase_ == Phase::kRefusing) return linger();
  if (phase_ != Phase::kAnswering) return;
  if (answer_ == ExchangeState::Phase::kComplete) return on_answered();
  flush();
}

void HttpConnection::on_answered() {
  const bool keep = exchange_->keep_alive();
  exchange_->connection = nullptr;
  exchange_.reset();
  head_only_ = false;
  answered_ = {};
  if (peer_closed_) return close();
  if (!keep) return linger();
  phase_ = Phase::kIdle;
  advance();
}

// Closes our side and waits a little for the peer to close its own: closing with unread bytes
// would reset the connection, and the peer might lose the answer.
void HttpConnection::linger() {
  if (peer_closed_) return close();
  enter(Phase::kLingering, kLingerSeconds);
  const auto shut = [self = shared_from_this()](const error_code&) {
    error_code ignored;
    if (self->phase_ != Phase::kClosed) {
      self->stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    }
  };
  if (stream_.tls()) {
    stream_.tls()->async_shutdown(shut);
  } else {
    shut({});
  }
  read_on();
}

void HttpConnection::check(Clock::time_point now) {
  if (phase_ == Phase::kClosed) return;
  if (writing_ && now > write_deadline_) return cut();
  if (now > deadline_) {
    const HttpLimits& limits = host_.options.limits;
    if (phase_ == Phase::kHead) {
      return refuse(408, str("the head did not arrive within ", limits.header_seconds, " s"));
    }
    if (phase_ == Phase::kBody) {
      return refuse(408, str("the body did not arrive within ", limits.body_seconds, " s"));
    }
    return close();
  }
  if (phase_ == Phase::kAnswering && !reading_ && !peer_closed_ &&
      has_hung_up(stream_.socket().native_handle())) {
    close();
  }
}

bool HttpConnection::idle() const { return phase_ == Phase::kIdle || phase_ == Phase::kHandshake; }

// Closes so that the peer sees an error, and that nothing of what it did not read is kept.
void HttpConnection::cut() {
  error_code ignored;
  stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  close();
}

void HttpConnection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  phase_ = Phase::kClosed;
  account_body(0);
  count_unread();
  error_code ignored;
  stream_.socket().close(ignored);
  host_.connections.erase(self);
  host_.num_connections = static_cast<int>(host_.connections.size());
  if (const auto exchange = std::move(exchange_)) {
    exchange->connection = nullptr;
    guarded("a function for disconnected clients", [&] { exchange->client_gone(); });
  }
}

}  // namespace glint
