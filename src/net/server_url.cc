#include "net/server_url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "base/str.h"

namespace glint {
namespace {

struct Cleanup {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

// A part of the URL, or nothing.
std::string part(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return "";
  std::string out = text;
  curl_free(text);
  return out;
}

bool has_blank_or_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
}

}  // namespace

Result<ServerUrl> parse_server_url(std::string_view text) {
  const std::string shown = quoted(text);
  const bool tls = lower(text.substr(0, 8)) == "https://";
  if (!tls && lower(text.substr(0, 7)) != "http://")
    return invalid(str("the URL ", shown, " does not begin with http:// or https://"));
  if (has_blank_or_control(text))
    return invalid(str("the URL ", shown, " has blanks or control characters"));
  const std::unique_ptr<CURLU, Cleanup> url(curl_url());
  CURLUcode code =
      curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), CURLU_PATH_AS_IS);
  if (text.substr(tls ? 8 : 7).starts_with('/')) code = CURLUE_NO_HOST;  // libcurl skips it
  const std::string port = part(url.get(), CURLUPART_PORT);
  if (code == CURLUE_BAD_PORT_NUMBER || port == "0")
    return invalid(str("the URL ", shown, " has no valid port; ports are 1 to 65535"));
  const std::string host = part(url.get(), CURLUPART_HOST);
  // Escapes are read; what still looks like one would be another host when it is read again.
  if (host.find('%') != host.npos) code = CURLUE_BAD_HOSTNAME;
  if (code != CURLUE_OK) return invalid(str("the URL ", shown, " has no valid host and port"));
  if (!part(url.get(), CURLUPART_USER).empty() || !part(url.get(), CURLUPART_PASSWORD).empty())
    return invalid(str("the URL ", shown, " holds a user name; send keys in a header instead"));
  ServerUrl out;
  out.origin = (tls ? "https://" : "http://") + host;
  if (!port.empty() && port != (tls ? "443" : "80")) out.origin += ":" + port;
  out.path = part(url.get(), CURLUPART_PATH);
  if (const std::string query = part(url.get(), CURLUPART_QUERY); !query.empty())
    out.path += "?" + query;
  return out;
}

Result<std::string> parse_api_server(std::string_view text) {
  GLINT_TRY(ServerUrl server, parse_server_url(text));
  if (server.path != "/" && server.path != "/v1" && server.path != "/v1/")
    return invalid(str("a server is expected, such as http://127.0.0.1:8000, got the path ",
                       quoted(server.path)));
  return std::move(server.origin);
}

Result<std::string> resolve_url(const std::string& base, const std::string& location) {
  const std::unique_ptr<CURLU, Cleanup> url(curl_url());
  if (location.empty() || has_blank_or_control(location) ||
      curl_url_set(url.get(), CURLUPART_URL, base.c_str(), CURLU_PATH_AS_IS) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, location.c_str(), CURLU_PATH_AS_IS) != CURLUE_OK)
    return invalid(str("the redirection to ", quoted(location), " leads nowhere"));
  const std::string whole = part(url.get(), CURLUPART_URL);
  GLINT_TRY(const ServerUrl checked, parse_server_url(whole));
  return checked.origin + checked.path;
}

}  // namespace glint
