// SocketStream: a TCP socket, with or without TLS on it, as one thing to read from and write to.
// Private to the sources of net/ that include Asio.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <utility>

namespace glint {

class SocketStream {
 public:
  using Tls = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;

  explicit SocketStream(boost::asio::ip::tcp::socket socket,
                        boost::asio::ssl::context* tls = nullptr)
      : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(socket_, *tls);
  }
  SocketStream(const SocketStream&) = delete;  // tls_ refers to socket_
  SocketStream& operator=(const SocketStream&) = delete;

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  Tls* tls() { return tls_.get(); }

  template <class Token>
  auto async_read_some(const boost::asio::mutable_buffer& buffer, Token&& token) {
    return tls_ ? tls_->async_read_some(buffer, std::forward<Token>(token))
                : socket_.async_read_some(buffer, std::forward<Token>(token));
  }
  template <class Token>
  auto async_write_some(const boost::asio::const_buffer& buffer, Token&& token) {
    return tls_ ? tls_->async_write_some(buffer, std::forward<Token>(token))
                : socket_.async_write_some(buffer, std::forward<Token>(token));
  }

 private:
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace glint
