#include "net/http_client.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/seconds.h"
#include "net/curl_loop.h"
#include "net/file_limit.h"
#include "net/http_transfer.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

class HttpClient::Impl {
 public:
  Impl(std::string origin, HttpClientOptions options)
      : origin_(std::move(origin)), options_(std::move(options)) {
    raise_file_limit(options_.max_connections);
  }
  ~Impl() {
    for (const auto& [id, transfer] : running_) loop_.remove(transfer->easy());
  }

  const HttpClientOptions& options() const { return options_; }

  Id start(Exchange exchange) {
    waiting_.emplace_back(++last_id_, std::move(exchange));
    return last_id_;
  }
  void cancel(Id id) {
    if (running_.count(id) > 0) cancelled_.insert(id);
    const auto is_it = [id](const auto& each) { return each.first == id; };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_it), waiting_.end());
  }
  void after(double seconds, std::function<void()> fn) {
    loop_.at(Clock::now() + from_seconds(seconds), std::move(fn));
  }
  void stop() { stopped_ = true; }

  bool is_idle() const { return running_.empty() && waiting_.empty() && !loop_.has_timers(); }
  bool stopped() const { return stopped_; }

  void step();

 private:
  void begin_waiting();
  void end_cancelled();
  void end_silent(Clock::time_point now);
  std::unique_ptr<HttpTransfer> take(Id id);
  void tell(const std::function<void(Result<HttpResponse>)>& on_done, Result<HttpResponse> result) {
    if (on_done && !stopped_) on_done(std::move(result));
  }

  const std::string origin_;
  const HttpClientOptions options_;
  CurlLoop loop_;
  Id last_id_ = 0;
  // libcurl takes nothing on or off within its callbacks: what these ask for waits for the next
  // step.
  std::vector<std::pair<Id, Exchange>> waiting_;
  std::unordered_set<Id> cancelled_;
  std::unordered_map<Id, std::unique_ptr<HttpTransfer>> running_;
  Clock::time_point next_look_ = {};  // at what is silent
  bool stopped_ = false;
};

std::unique_ptr<HttpTransfer> HttpClient::Impl::take(Id id) {
  const auto found = running_.find(id);
  std::unique_ptr<HttpTransfer> out = std::move(found->second);
  running_.erase(found);
  loop_.remove(out->easy());
  return out;
}

void HttpClient::Impl::begin_waiting() {
  for (auto& [id, exchange] : std::exchange(waiting_, {})) {
    const std::function<void(Result<HttpResponse>)> on_done = exchange.on_done;
    Result<std::unique_ptr<HttpTransfer>> made =
        HttpTransfer::make(id, std::move(exchange), origin_, options_);
    if (!made.ok()) {
      tell(on_done, std::move(made).take_error());
      continue;
    }
    loop_.add(made.value()->easy());
    running_.emplace(id, std::move(made).value());
  }
}

void HttpClient::Impl::end_cancelled() {
  for (const Id id : std::exchange(cancelled_, {})) {
    if (running_.count(id) > 0) take(id);
  }
}

void HttpClient::Impl::end_silent(Clock::time_point now) {
  std::vector<Id> silent;
  for (const auto& [id, transfer] : running_) {
    if (transfer->is_silent(now)) silent.push_back(id);
  }
  for (const Id id : silent) {
    if (running_.count(id) == 0) continue;
    const std::unique_ptr<HttpTransfer> transfer = take(id);
    tell(transfer->take_on_done(), transfer->silence());
  }
}

void HttpClient::Impl::step() {
  end_cancelled();
  begin_waiting();
  const auto end = [this](CURL* easy, CURLcode code) {
    const Id id = HttpTransfer::of(easy).id();
    const bool wanted = cancelled_.count(id) == 0;
    const std::unique_ptr<HttpTransfer> transfer = take(id);
    if (wanted) tell(transfer->take_on_done(), transfer->result(code));
  };
  const Clock::time_point now = Clock::now();
  if (now >= next_look_) {
    loop_.step(now, end);  // what came while a callback worked was no silence
    end_cancelled();
    end_silent(now);
    next_look_ = now + from_seconds(std::clamp(options_.read_seconds / 4, 0.005, 0.5));
  }
  if (stopped_ || is_idle()) return;
  const Clock::time_point until = !waiting_.empty()  ? now
                                  : running_.empty() ? Clock::time_point::max()
                                                     : next_look_;
  loop_.step(until, end);
}

HttpClient::HttpClient(std::string origin, HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(origin), std::move(options))) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::start(Exchange exchange) { return impl_->start(std::move(exchange)); }
void HttpClient::cancel(Id id) { impl_->cancel(id); }
void HttpClient::after(double seconds, std::function<void()> fn) {
  impl_->after(seconds, std::move(fn));
}
void HttpClient::stop() { impl_->stop(); }

void HttpClient::run() {
  while (!impl_->stopped() && !impl_->is_idle()) impl_->step();
}

Result<HttpResponse> HttpClient::send(const std::string& method, const std::string& target,
                                      HttpHeaders headers, std::string body,
                                      const std::function<bool(std::string_view)>& on_piece) {
  return wait_for({.method = method,
                   .target = target,
                   .headers = std::move(headers),
                   .body = std::move(body),
                   .on_piece = on_piece});
}

Result<HttpResponse> HttpClient::look_up(const std::string& target, HttpHeaders headers) {
  constexpr double kMostSeconds = 60;
  return wait_for({.target = target,
                   .headers = std::move(headers),
                   .read_seconds = std::min(kMostSeconds, impl_->options().read_seconds)});
}

Result<HttpResponse> HttpClient::wait_for(Exchange exchange) {
  std::optional<Result<HttpResponse>> out;
  exchange.on_done = [&out](Result<HttpResponse> result) { out = std::move(result); };
  impl_->start(std::move(exchange));
  while (!out) impl_->step();
  return std::move(*out);
}

}  // namespace glint
