// Sockets that listen: an address or a name to sockets, and PEM files to a TLS context. Private to
// the sources of net/ that include Asio.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// Listens on every address of `host` ("localhost" has two) with one port; `port` 0: any free one.
// An empty host is every address of this machine, IPv6 and IPv4.
Result<std::vector<boost::asio::ip::tcp::acceptor>> listen_on(boost::asio::io_context& io,
                                                              const std::string& host, int port);

// TLS 1.2 and 1.3 with forward secrecy, for a server.
Result<std::unique_ptr<boost::asio::ssl::context>> server_tls(const std::string& certificate,
                                                              const std::string& key);

}  // namespace glint
