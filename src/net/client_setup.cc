#include "net/client_setup.h"

#include <openssl/ssl.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>

#include "base/str.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

bool has_control(std::string_view text) {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return true;
  }
  return false;
}

}  // namespace

bool only_reads(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

Result<std::string> request_text(const Url& server, const ClientRequest& request) {
  const std::string& path = request.path;
  if (path.empty() || path[0] != '/' || path.find(' ') != path.npos || has_control(path)) {
    return invalid(str("the path ", quoted(path), " cannot be asked for"));
  }
  std::string text =
      request.method + " " + path + " HTTP/1.1\r\nhost: " + authority(server) + "\r\n";
  for (const auto& [key, value] : request.headers) {
    if (has_control(key) || key.find_first_of(" \t:") != key.npos || has_control(value)) {
      return invalid(str("the header ", quoted(key), " cannot be sent: it has control characters"));
    }
    text += key + ": " + value + "\r\n";
  }
  if (!request.body.empty() || !only_reads(request.method)) {
    text += "content-length: " + std::to_string(request.body.size()) + "\r\n";
  }
  return text + "\r\n" + request.body;
}

Result<std::unique_ptr<asio::ssl::context>> client_tls(const HttpClientOptions& options) {
  error_code ec;
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  tls->set_verify_mode(asio::ssl::verify_peer, ec);
  if (options.ca_file.empty()) {
    tls->set_default_verify_paths(ec);
  } else {
    tls->load_verify_file(options.ca_file, ec);
  }
  if (ec) {
    return invalid(
        str("the file of TLS roots ", quoted(options.ca_file), " cannot be read: ", ec.message()));
  }
  return tls;
}

void expect_host(SocketStream::Tls& tls, const Url& server) {
  error_code ec;
  asio::ip::make_address(server.host, ec);
  // Names only, by RFC 6066.
  if (ec) SSL_set_tlsext_host_name(tls.native_handle(), server.host.c_str());
  tls.set_verify_callback(asio::ssl::host_name_verification(server.host), ec);
}

Status certificate_status(SocketStream::Tls& tls, const std::string& name) {
  const long why = SSL_get_verify_result(tls.native_handle());
  if (why == X509_V_OK) return Ok{};
  return Error{
      ErrorCode::kUnavailable,
      str("the certificate of ", name, " is not trusted: ", X509_verify_cert_error_string(why))};
}

}  // namespace glint
