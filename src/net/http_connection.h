// HttpConnection: one connection of an HttpServer: reads requests, hands them over, sends answers.
// All of it runs on the io thread.
//
// One coroutine always has one read outstanding, also while a request is answered: that is how a
// peer that goes away is noticed. What a peer sends ahead is kept until its turn comes, up to a
// bound. One writer sends whatever has gathered in one write. Times are deadlines, compared with
// the clock by a tick of the server: no timers per connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>

#include "net/exchange_state.h"
#include "net/http_server.h"
#include "net/request_parser.h"
#include "net/socket_stream.h"

namespace glint {

// State shared by the connections of a server. Outlives them.
struct ConnectionHost {
  HttpServerOptions options;
  HttpServer::Handler handler;
  std::shared_ptr<Outbox> outbox;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections = {};
  // Bodies of requests that arrive or that the handler has; the latter may outlive the server.
  std::shared_ptr<std::atomic<std::size_t>> body_bytes =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::size_t unread_bytes = 0;          // of answers that their readers have not taken
  std::atomic<int> num_connections = 0;  // == connections.size()
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Clock = std::chrono::steady_clock;

  HttpConnection(ConnectionHost& host, boost::asio::ip::tcp::socket socket,
                 boost::asio::ssl::context* tls);
  ~HttpConnection();

  void start();
  void start_refused(int status, const std::string& reason);  // answers this and closes
  void flush();                                               // the answer has something to send
  void check(Clock::time_point now);  // closes or refuses what has taken too long
  bool idle() const;                  // between two requests
  void close();

 private:
  enum class Phase { kHandshake, kIdle, kHead, kBody, kAnswering, kRefusing, kLingering, kClosed };

  boost::asio::awaitable<void> handshake();
  boost::asio::awaitable<void> read_loop();
  void spawn(boost::asio::awaitable<void> task);
  void read_on();
  void on_bytes(std::size_t n);
  void parse_bytes(std::size_t n);
  void on_peer_closed();
  void advance();
  void enter(Phase phase, double seconds);
  bool account_body(std::size_t bytes);
  std::shared_ptr<const void> hand_over_account();
  void wait_for_more();
  void dispatch();
  void refuse(int status, const std::string& reason);
  HttpResponse page_of(const HttpRefusal& refusal) const;
  void write(std::string bytes);
  void write_some();
  void on_written(std::size_t n);
  void on_answered();
  void linger();
  bool paused() const;
  void count_unread();
  void bound_unread();
  void cut();

  ConnectionHost& host_;
  SocketStream stream_;
  std::string peer_;
  RequestParser parser_;
  std::string read_buffer_;
  Phase phase_ = Phase::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool reading_ = false, peer_closed_ = false;

  std::shared_ptr<ExchangeState> exchange_;  // while kAnswering
  ExchangeState::Phase answer_ = ExchangeState::Phase::kUnanswered;
  HttpRequest answered_;  // its head, for error pages
  bool head_only_ = false;

  std::string out_, next_out_;  // being written, from out_sent_ on; to be written behind it
  std::size_t out_sent_ = 0;
  Clock::time_point out_begun_ = {};
  Clock::time_point write_deadline_ = Clock::time_point::max();
  bool writing_ = false;
  struct {
    std::size_t body = 0, unread = 0;  // of the host's sums
    std::size_t waiting = 0;           // bytes of the answer behind out_, as of the last look
    std::size_t discarded = 0;
  } counted_;
};

}  // namespace glint
