#include "net/http_transfer.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxHeadBytes = 256 << 10;

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

bool only_reads(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

bool is_this_machine(std::string_view origin) {
  const std::string_view host = origin.substr(origin.find("//") + 2);
  return host.starts_with("127.") || host.starts_with("[::1]") ||
         host.substr(0, host.find(':')) == "localhost";
}

// Roots where OpenSSL looks for them, SSL_CERT_FILE and SSL_CERT_DIR included.
CURLcode trust_this_machine(CURL*, void* context, void*) {
  return SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(context)) == 1
             ? CURLE_OK
             : CURLE_SSL_CACERT_BADFILE;
}

}  // namespace

template <class Value>
void HttpTransfer::set(CURLoption option, Value value) {
  curl_easy_setopt(easy_.get(), option, value);
}

HttpTransfer::HttpTransfer(HttpClient::Id id, HttpClient::Exchange exchange,
                           const HttpClientOptions& options)
    : id_(id), exchange_(std::move(exchange)), options_(options), easy_(curl_easy_init()) {
  if (exchange_.read_seconds == 0) exchange_.read_seconds = options.read_seconds;
  GLINT_CHECK(easy_ != nullptr, "libcurl has no memory");
}

Result<std::unique_ptr<HttpTransfer>> HttpTransfer::make(HttpClient::Id id,
                                                         HttpClient::Exchange exchange,
                                                         const std::string& origin,
                                                         const HttpClientOptions& options) {
  std::unique_ptr<HttpTransfer> out(new HttpTransfer(id, std::move(exchange), options));
  GLINT_TRY_STATUS(out->set_up(origin));
  return out;
}

HttpTransfer& HttpTransfer::of(CURL* easy) {
  char* self = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &self);
  return *reinterpret_cast<HttpTransfer*>(self);
}

Status HttpTransfer::set_up(const std::string& origin) {
  const std::string& target = exchange_.target;
  std::string url = target;
  if (target.starts_with("http://") || target.starts_with("https://")) {
    GLINT_TRY(const ServerUrl whole, parse_server_url(target));
    name_ = whole.origin;
  } else {
    if (target.empty() || target[0] != '/' || target.find(' ') != target.npos ||
        has_control(target))
      return invalid(str("the path ", quoted(target), " cannot be asked for"));
    name_ = origin;
    url = origin + target;
  }
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PRIVATE, static_cast<void*>(this));
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_CONNECTTIMEOUT_MS, std::max(static_cast<long>(options_.connect_seconds * 1e3), 1L));
  set(CURLOPT_BUFFERSIZE, static_cast<long>(options_.buffer_bytes));
  set(CURLOPT_PREREQFUNCTION, &before_request);
  set(CURLOPT_PREREQDATA, static_cast<void*>(this));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  may_use_proxy_ = options_.use_proxy && !is_this_machine(name_);
  if (!may_use_proxy_) set(CURLOPT_PROXY, "");
  set_tls();
  set_method();
  return set_headers();
}

void HttpTransfer::set_tls() {
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
  if (!options_.ca_file.empty()) {
    set(CURLOPT_CAINFO, options_.ca_file.c_str());
  } else {
    set(CURLOPT_CAINFO, static_cast<char*>(nullptr));
    set(CURLOPT_SSL_CTX_FUNCTION, &trust_this_machine);
  }
}

void HttpTransfer::set_method() {
  const std::string& method = exchange_.method;
  if (method == "HEAD") return set(CURLOPT_NOBODY, 1L);
  if (!only_reads(method) || !exchange_.body.empty()) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDS, exchange_.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange_.body.size()));
  }
  set(CURLOPT_CUSTOMREQUEST, method.c_str());
}

Status HttpTransfer::set_headers() {
  // Nothing that was not asked for.
  std::vector<std::string> lines = {"expect:"};
  bool has_type = false;
  for (const auto& [key, value] : exchange_.headers) {
    if (key.empty() || has_control(key) || key.find_first_of(" \t:;") != key.npos ||
        has_control(value))
      return invalid(str("the header ", quoted(key), " cannot be sent: it has control characters"));
    has_type = has_type || lower(key) == "content-type";
    lines.push_back(value.empty() ? key + ";" : key + ": " + value);
  }
  if (!has_type) lines.emplace_back("content-type:");
  for (const std::string& line : lines) {
    curl_slist* grown = curl_slist_append(headers_.get(), line.c_str());
    GLINT_CHECK(grown != nullptr, "libcurl has no memory");
    if (!headers_) headers_.reset(grown);
  }
  set(CURLOPT_HTTPHEADER, headers_.get());
  return Ok{};
}

// Before each time that the request is sent. libcurl sends anything again on a new connection when
// a kept one turns out to be closed.
int HttpTransfer::before_request(void* data, char*, char*, int, int) {
  auto& self = *static_cast<HttpTransfer*>(data);
  const bool again = std::exchange(self.sent_, true);
  self.last_sign_ = Clock::now();
  return again && !only_reads(self.exchange_.method) ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

std::size_t HttpTransfer::on_header(char* line, std::size_t, std::size_t size, void* self) {
  return static_cast<HttpTransfer*>(self)->take_header({line, size}) ? size : 0;
}

bool HttpTransfer::take_header(std::string_view line) {
  last_sign_ = Clock::now();
  if (head_done_) return true;  // fields behind the last chunk
  head_bytes_ += line.size();
  if (head_bytes_ > kMaxHeadBytes) return false;
  if (line.starts_with("HTTP/")) {
    response_.headers.clear();  // "100 Continue" and its like stand before the answer
  } else if (const std::string_view text = trimmed(line); text.empty()) {
    long status = 0;
    curl_easy_getinfo(easy(), CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    head_done_ = status >= 200;
  } else if (const std::size_t colon = text.find(':'); colon != text.npos && colon > 0) {
    response_.headers.emplace_back(lower(trimmed(text.substr(0, colon))),
                                   std::string(trimmed(text.substr(colon + 1))));
  }
  return true;
}

std::size_t HttpTransfer::on_body(char* bytes, std::size_t, std::size_t size, void* self) {
  return static_cast<HttpTransfer*>(self)->take_body({bytes, size}) ? size : 0;
}

bool HttpTransfer::take_body(std::string_view bytes) {
  last_sign_ = Clock::now();
  if (response_.status / 100 == 2 && exchange_.on_piece) {
    const bool first = !std::exchange(head_told_, true);
    if (first && exchange_.on_head) ended_ = !exchange_.on_head(response_);
    ended_ = ended_ || !exchange_.on_piece(bytes);
    return !ended_;
  }
  too_long_ = response_.body.size() + bytes.size() > options_.max_body_bytes;
  if (!too_long_) response_.body.append(bytes);
  return !too_long_;
}

bool HttpTransfer::is_silent(Clock::time_point now) {
  if (!sent_) return false;  // libcurl's own limit holds
  curl_off_t uploaded = 0;
  curl_easy_getinfo(easy(), CURLINFO_SIZE_UPLOAD_T, &uploaded);
  if (std::exchange(uploaded_, uploaded) != uploaded) last_sign_ = now;
  return seconds_between(last_sign_, now) >= exchange_.read_seconds;
}

Error HttpTransfer::silence() const {
  const bool by_option =
      exchange_.read_seconds == options_.read_seconds && !options_.read_option.empty();
  return unavailable(str("cannot read from ", name_, ": nothing came within ",
                         exchange_.read_seconds, " s",
                         by_option ? str(" (", options_.read_option, ")") : std::string()));
}

Result<HttpResponse> HttpTransfer::result(CURLcode code) {
  if (ended_ || (code == CURLE_OK && head_done_)) return std::move(response_);
  return failed(code);
}

Error HttpTransfer::untrusted() const {
  long why = X509_V_OK;
  curl_easy_getinfo(easy(), CURLINFO_SSL_VERIFYRESULT, &why);
  const std::string& option = options_.ca_option;
  return invalid(str("the certificate of ", name_, " is not trusted: ",
                     why == X509_V_OK ? error_.data() : X509_verify_cert_error_string(why),
                     option.empty() ? "" : str("; ", option, " names a file of roots to trust")));
}

Error HttpTransfer::failed(CURLcode code) const {
  const std::string detail = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
  if (too_long_)
    return invalid(str(name_, ": the answer is longer than ", options_.max_body_bytes, " bytes"));
  // libcurl has no memory for a line of more than 100 KB.
  if (head_bytes_ > kMaxHeadBytes || (code == CURLE_OUT_OF_MEMORY && sent_ && !head_done_))
    return invalid(str(name_, ": the head of the answer is longer than ", kMaxHeadBytes, " bytes"));
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
      return unavailable(str("cannot reach ", name_,
                             " by the proxy of http_proxy, https_proxy or "
                             "all_proxy: ",
                             detail));
    case CURLE_COULDNT_RESOLVE_HOST:
      return unavailable(str("cannot reach ", name_, ": the host does not resolve: ", detail));
    case CURLE_COULDNT_CONNECT: {
      long number = 0;
      curl_easy_getinfo(easy(), CURLINFO_OS_ERRNO, &number);
      return unavailable(str("cannot reach ", name_, ": ",
                             number && !may_use_proxy_  // else libcurl's words name the proxy
                                 ? std::strerror(static_cast<int>(number))
                                 : detail));
    }
    case CURLE_OPERATION_TIMEDOUT:
      return unavailable(
          str("cannot reach ", name_, ": nothing came within ", options_.connect_seconds, " s"));
    case CURLE_SSL_CACERT_BADFILE:
      return invalid(
          str("the file of TLS roots ", quoted_path(options_.ca_file), " cannot be read"));
    case CURLE_PEER_FAILED_VERIFICATION:
      return untrusted();
    case CURLE_SSL_CONNECT_ERROR:
      return unavailable(str("no TLS with ", name_, ": ", detail));
    case CURLE_OK:  // closed within the head
    case CURLE_PARTIAL_FILE:
      return unavailable(name_ + ": the connection was closed within the answer");
    case CURLE_GOT_NOTHING:
    case CURLE_ABORTED_BY_CALLBACK:  // before_request: a kept connection was closed
      return unavailable(name_ + ": the connection was closed without an answer");
    case CURLE_SEND_ERROR:
      return unavailable(str("cannot send to ", name_, ": ", detail));
    case CURLE_RECV_ERROR:
      return unavailable(str("cannot read from ", name_, ": ", detail));
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
      return invalid(str(name_, ": the answer is not valid HTTP: ", detail));
    default:
      return unavailable(str(name_, ": ", detail));
  }
}

}  // namespace glint
