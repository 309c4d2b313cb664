// The texts of addresses: percent-decoding, and what stands in the first line of a request.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

struct Url {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  int port = 80;
  std::string path = "/";  // with the query
};
// http and https only; no user name. A fragment is dropped.
Result<Url> parse_url(std::string_view text);

// "host:port" as a Host header says it: without the port of the scheme, IPv6 in brackets.
std::string authority(const Url& url);

struct RequestTarget {
  std::string path;       // decoded: valid UTF-8 without control characters
  std::string query;      // as sent
  std::string authority;  // of "http://host/path", else empty
};
// "/path?query", "http://host/path?query" or "*".
Result<RequestTarget> parse_target(std::string_view target);

// Whether `text` may stand in a Host header: a name, an address, with or without a port.
bool is_authority(std::string_view text);

}  // namespace glint
