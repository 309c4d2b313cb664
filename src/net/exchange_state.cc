#include "net/exchange_state.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/check.h"

namespace glint {
namespace {

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

bool wants_close(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    if (name == "connection" && value == "close") return true;
  }
  return false;
}

}  // namespace

std::string format_head(const ResponseHead& head) {
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(head.status)));
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
  out.append(reason.data(), reason.size());
  out += "\r\ndate: " + date() + "\r\n";
  for (const auto& [name, value] : head.headers) {
    GLINT_CHECK(!name.empty() && name.find_first_of(" \r\n:") == name.npos,
                "a header's name is no token");
    if (name == "content-length" || name == "transfer-encoding" || name == "date" ||
        name == "connection") {
      continue;
    }
    out += name + ": ";
    for (const char c : value) {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    out += "\r\n";
  }
  out += head.length;
  if (!head.keep_alive) {
    out += "connection: close\r\n";
  } else if (head.http_1_0) {
    out += "connection: keep-alive\r\n";
  }
  return out + "\r\n";
}

void Outbox::add(std::shared_ptr<ExchangeState> state) {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    if (ready_.empty()) wake = wake_;
    ready_.push_back(std::move(state));
    if (wake) wake();  // under the lock: close() must not return while it runs
  }
}

std::vector<std::shared_ptr<ExchangeState>> Outbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ready_, {});
}

void Outbox::close() {
  std::vector<std::shared_ptr<ExchangeState>> dropped;  // freed after the lock
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  dropped.swap(ready_);
}

ExchangeState::ExchangeState(std::shared_ptr<Outbox> outbox, Form form, std::size_t max_buffer)
    : outbox_(std::move(outbox)), form_(form), max_buffer_(max_buffer) {}

HttpExchange ExchangeState::handle() {
  return HttpExchange(std::shared_ptr<ExchangeState>(
      this, [self = shared_from_this()](ExchangeState*) { self->dropped(); }));
}

void ExchangeState::enqueue() {
  if (queued_) return;
  queued_ = true;
  outbox_->add(shared_from_this());
}

void ExchangeState::append_head(int status, const HttpHeaders& headers, const std::string& length) {
  keep_alive_ = keep_alive_ && form_.keep_alive && !outbox_->draining && !wants_close(headers);
  bytes_ += format_head({.status = status,
                         .headers = headers,
                         .length = length,
                         .http_1_0 = form_.http_1_0,
                         .keep_alive = keep_alive_});
}

void ExchangeState::respond(HttpResponse response) {
  std::function<void()> unused;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kUnanswered) return;
  phase_ = Phase::kComplete;
  unused.swap(on_disconnect_);
  if (gone_) return;
  const bool bare = has_no_body(response.status);
  append_head(response.status, response.headers,
              bare ? "" : "content-length: " + std::to_string(response.body.size()) + "\r\n");
  if (!bare && !form_.head) bytes_ += response.body;
  enqueue();
}

void ExchangeState::begin_stream(int status, HttpHeaders headers) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kUnanswered) return;
  phase_ = Phase::kStreaming;
  if (gone_) return;
  has_body_ = !has_no_body(status) && !form_.head;
  chunked_ = has_body_ && !form_.http_1_0;
  if (form_.http_1_0) keep_alive_ = false;  // only the end of the connection ends its body
  append_head(status, headers,
              form_.http_1_0 || has_no_body(status) ? "" : "transfer-encoding: chunked\r\n");
  enqueue();
}

bool ExchangeState::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (gone_ || phase_ != Phase::kStreaming) return false;
  if (bytes.empty() || !has_body_) return true;
  // A piece larger than the buffer says nothing of its reader, nor do those right behind it.
  largest_ = std::max(largest_, bytes.size());
  if (bytes_.size() + taken_ + bytes.size() > max_buffer_ + largest_) {
    phase_ = Phase::kBroken;
    enqueue();
    return false;
  }
  if (chunked_) {
    char size[20];
    bytes_.append(
        size, static_cast<std::size_t>(std::snprintf(size, sizeof size, "%zx\r\n", bytes.size())));
  }
  bytes_ += bytes;
  if (chunked_) bytes_ += "\r\n";
  enqueue();
  return true;
}

void ExchangeState::finish() {
  std::function<void()> unused;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStreaming) return;
  phase_ = Phase::kComplete;
  unused.swap(on_disconnect_);
  if (gone_) return;
  if (chunked_) bytes_ += "0\r\n\r\n";
  enqueue();
}

void ExchangeState::dropped() {
  std::function<void()> unused;  // freed after the lock
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kUnanswered && phase_ != Phase::kStreaming) return;
  phase_ = phase_ == Phase::kUnanswered ? Phase::kAbandoned : Phase::kBroken;
  unused.swap(on_disconnect_);
  if (!gone_) enqueue();
}

void ExchangeState::on_disconnect(std::function<void()> fn) {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kComplete || phase_ == Phase::kAbandoned) return;
  on_disconnect_.swap(fn);
  if (gone_) enqueue();
}

bool ExchangeState::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool ExchangeState::streams() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kStreaming;
}

std::size_t ExchangeState::num_unsent() const {
  const std::lock_guard lock(mutex_);
  return bytes_.size() + taken_;
}

ExchangeState::Phase ExchangeState::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  queued_ = false;
  bytes.swap(bytes_);
  taken_ = bytes.size();
  return phase_;
}

ExchangeState::Phase ExchangeState::look(std::size_t& waiting) {
  const std::lock_guard lock(mutex_);
  queued_ = false;
  waiting = bytes_.size();
  return phase_;
}

bool ExchangeState::keep_alive() const {
  const std::lock_guard lock(mutex_);
  return keep_alive_ && !outbox_->draining;
}

void ExchangeState::client_gone() {
  std::function<void()> fn;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    queued_ = false;
    fn.swap(on_disconnect_);
    bytes_ = {};
  }
  if (fn) fn();
}

void ExchangeState::call_if_gone() {
  std::function<void()> fn;
  {
    const std::lock_guard lock(mutex_);
    queued_ = false;
    if (!gone_) return;
    fn.swap(on_disconnect_);
  }
  if (fn) fn();
}

void HttpExchange::respond(HttpResponse response) { state_->respond(std::move(response)); }
void HttpExchange::begin_stream(int status, HttpHeaders headers) {
  state_->begin_stream(status, std::move(headers));
}
bool HttpExchange::write(std::string_view bytes) { return state_->write(bytes); }
void HttpExchange::finish() { state_->finish(); }
void HttpExchange::on_disconnect(std::function<void()> fn) { state_->on_disconnect(std::move(fn)); }
std::size_t HttpExchange::num_unsent() const { return state_->num_unsent(); }
bool HttpExchange::gone() const { return state_->gone(); }
bool HttpExchange::streams() const { return state_->streams(); }

namespace {

std::string_view value_of(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  return value_of(headers, name);
}
std::string_view HttpResponse::header(std::string_view name) const {
  return value_of(headers, name);
}

}  // namespace glint
