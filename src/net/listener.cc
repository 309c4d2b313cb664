#include "net/listener.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/ip/v6_only.hpp>
#include <utility>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A thousand clients that connect at once must find room; the kernel cuts this to
// net.core.somaxconn.
constexpr int kBacklog = 65535;

Error listen_error(const std::string& host, int port, const error_code& ec) {
  std::string what = str("cannot listen on ", host.empty() ? "any address" : host, " port ", port);
  if (ec == asio::error::address_in_use) {
    what += ": another program listens there; end it or choose another port";
  } else if (ec == asio::error::access_denied) {
    what += ": ports below 1024 need more rights; choose a higher one";
  } else if (ec.value() == EADDRNOTAVAIL) {
    what += ": this machine has no such address";
  } else {
    what += ": " + ec.message();
  }
  return unavailable(what);
}

error_code open(tcp::acceptor& acceptor, const tcp::endpoint& at, bool only_v6) {
  error_code ec;
  acceptor.open(at.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && at.address().is_v6()) acceptor.set_option(asio::ip::v6_only(only_v6), ec);
  if (!ec) acceptor.bind(at, ec);
  if (!ec) acceptor.listen(kBacklog, ec);
  if (!ec) acceptor.non_blocking(true, ec);
  return ec;
}

Result<std::vector<tcp::endpoint>> endpoints(asio::io_context& io, std::string host, int port) {
  const auto number = static_cast<unsigned short>(port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  if (!ec) return std::vector{tcp::endpoint(address, number)};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) {
    return invalid(str("the host ", quoted(host), " is no address and no name that resolves here"));
  }
  std::vector<tcp::endpoint> out;
  for (const auto& entry : found) out.push_back(entry.endpoint());
  return out;
}

Status check_readable(const char* what, const std::string& path) {
  GLINT_TRY_STATUS(read_file(path, std::size_t{1} << 20).in(str("the TLS ", what)));
  return Ok{};
}

}  // namespace

Result<std::vector<tcp::acceptor>> listen_on(asio::io_context& io, const std::string& host,
                                             int port) {
  if (port < 0 || port > 65535) return invalid(str("the port is ", port, "; ports are 0 to 65535"));
  std::vector<tcp::acceptor> out;
  if (host.empty()) {  // IPv6 takes IPv4 with it; a kernel without IPv6 has IPv4 alone
    const auto number = static_cast<unsigned short>(port);
    error_code ec;
    for (const auto& protocol : {tcp::v6(), tcp::v4()}) {
      tcp::acceptor acceptor(io);
      ec = open(acceptor, tcp::endpoint(protocol, number), false);
      if (!ec) {
        out.push_back(std::move(acceptor));
        return out;
      }
      if (ec == asio::error::address_in_use) break;
    }
    return listen_error(host, port, ec);
  }
  std::vector<tcp::endpoint> all;
  if (auto found = endpoints(io, host, port); found.ok()) {
    all = std::move(found).value();
  } else {
    return std::move(found).take_error();
  }
  error_code last;
  for (tcp::endpoint& at : all) {
    if (!out.empty()) at.port(out.front().local_endpoint().port());
    tcp::acceptor acceptor(io);
    // "::" means every address, IPv4 too; one address of several stands for itself.
    const error_code ec = open(acceptor, at, all.size() > 1);
    if (!ec) {
      out.push_back(std::move(acceptor));
    } else if (ec == asio::error::address_in_use && port != 0) {
      return listen_error(host, port, ec);
    } else {
      last = ec;
    }
  }
  if (out.empty()) return listen_error(host, port, last);
  return out;
}

Result<std::unique_ptr<asio::ssl::context>> server_tls(const std::string& certificate,
                                                       const std::string& key) {
  GLINT_TRY_STATUS(check_readable("certificate", certificate));
  GLINT_TRY_STATUS(check_readable("key", key));
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* raw = context->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(
      raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);  // 34 KiB less for a connection that waits
  SSL_CTX_set_cipher_list(raw, "ECDHE+AESGCM:ECDHE+CHACHA20");  // of TLS 1.2
  error_code ec;
  // Without this OpenSSL asks for the password of an encrypted key on the terminal.
  context->set_password_callback(
      [](std::size_t, asio::ssl::context::password_purpose) { return std::string(); }, ec);
  context->use_certificate_chain_file(certificate, ec);
  if (ec) {
    return invalid(str("the TLS certificate ", quoted_path(certificate),
                       " is no PEM certificate: ", ec.message()));
  }
  context->use_private_key_file(key, asio::ssl::context::pem, ec);
  if (ec) {
    return invalid(str("the TLS key ", quoted_path(key),
                       " cannot be used (it must be PEM, without a password, and belong to the "
                       "certificate): ",
                       ec.message()));
  }
  return context;
}

}  // namespace glint
