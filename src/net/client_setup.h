// What HttpClient and AsyncHttpClient share: the text of a request, and TLS towards a server.
// Private to the sources of net/ that include Asio.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "net/http_client.h"
#include "net/socket_stream.h"

namespace glint {

struct ClientRequest {
  std::string method = "GET", path = "/";
  HttpHeaders headers = {};
  std::string body = {};
};

// GET, HEAD, OPTIONS: what can be sent twice.
bool only_reads(std::string_view method);

// The bytes to send. Fails on what would not be one request.
Result<std::string> request_text(const Url& server, const ClientRequest& request);

// TLS 1.2 and 1.3 with the roots that the options name.
Result<std::unique_ptr<boost::asio::ssl::context>> client_tls(const HttpClientOptions& options);

// Before a handshake: which host is meant, and that its certificate must say so.
void expect_host(SocketStream::Tls& tls, const Url& server);

// "the certificate of X is not trusted: ..." after a handshake that failed for that; else ok.
Status certificate_status(SocketStream::Tls& tls, const std::string& name);

}  // namespace glint
