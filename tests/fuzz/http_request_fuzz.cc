// Requests: what is read must not depend on how the bytes are cut, must hold nothing that a request
// cannot hold, and must read the same when it is written again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "net/request_parser.h"

namespace {

using namespace glint;
using Progress = RequestParser::Progress;

constexpr std::size_t kMaxInput = 8192;

struct Outcome {
  std::vector<HttpRequest> requests;
  bool refused = false;
};

HttpLimits limits() {
  HttpLimits out;
  out.max_header_bytes = 1024;
  out.max_target_bytes = 256;
  out.max_body_bytes = 512;
  return out;
}

Outcome read(std::string_view text, std::size_t piece) {
  Outcome out;
  RequestParser parser(limits());
  while (!text.empty() && !out.refused) {
    parser.append(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
    Progress progress;
    while ((progress = parser.parse()) == Progress::kRequest) out.requests.push_back(parser.take());
    parser.take_expectation();
    GLINT_CHECK(parser.body_bytes() <= limits().max_body_bytes, "a body beyond the limit");
    out.refused = progress == Progress::kRefused;
    GLINT_CHECK(!out.refused || (parser.status() >= 400 && !parser.reason().empty()),
                "a refusal without a status and a reason");
  }
  return out;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

void check(const HttpRequest& request) {
  GLINT_CHECK(!request.method.empty() && !request.path.empty(), "an empty part");
  GLINT_CHECK(request.path[0] == '/' || request.path == "*", "a path that begins with nothing");
  GLINT_CHECK(!has_control(request.path) && !has_control(request.query), "a control character");
  GLINT_CHECK(request.body.size() <= limits().max_body_bytes, "a body beyond the limit");
  for (const auto& [name, value] : request.headers) {
    GLINT_CHECK(!name.empty() && !has_control(name) && !has_control(value), "a header's parts");
    GLINT_CHECK(name.find_first_of(" \t:ABCDEFGHIJKLMNOPQRSTUVWXYZ") == name.npos, "a name");
  }
}

// In the plainest form that there is.
std::string written(const HttpRequest& request) {
  std::string out = request.method + " ";
  for (const char c : request.path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || request.path == "*") {
      out += c;
    } else {
      out += {'%', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    }
  }
  if (!request.query.empty()) out += "?" + request.query;
  out += " HTTP/1.1\r\n";
  for (const auto& [name, value] : request.headers) {
    if (name == "content-length" || name == "transfer-encoding" || name == "expect") continue;
    out += name + ":" + value + "\r\n";
  }
  if (request.header("host").empty()) out += "host:\r\n";
  return out + "content-length:" + std::to_string(request.body.size()) + "\r\n\r\n" + request.body;
}

void check_written_again(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    if (name == "host" && value.empty()) return;  // written() would write a second one
  }
  const Outcome again = read(written(request), kMaxInput * 4);
  if (again.refused) return;  // escapes are longer than the limits allow
  GLINT_CHECK(again.requests.size() == 1, "one request reads as another number of them");
  const HttpRequest& second = again.requests[0];
  GLINT_CHECK(second.method == request.method && second.path == request.path &&
                  second.query == request.query && second.body == request.body,
              "a request that is written reads differently");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > kMaxInput) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(text, text.size());
  for (const HttpRequest& request : whole.requests) {
    check(request);
    check_written_again(request);
  }
  const Outcome pieces = read(text, piece);
  GLINT_CHECK(pieces.refused == whole.refused, "whether it is refused depends on the pieces");
  GLINT_CHECK(pieces.requests.size() == whole.requests.size(),
              "the number of requests depends on the pieces");
  for (std::size_t i = 0; i < whole.requests.size(); ++i) {
    const HttpRequest &a = whole.requests[i], &b = pieces.requests[i];
    GLINT_CHECK(a.method == b.method && a.path == b.path && a.query == b.query &&
                    a.headers == b.headers && a.body == b.body,
                "a request depends on the pieces");
  }
  return 0;
}
