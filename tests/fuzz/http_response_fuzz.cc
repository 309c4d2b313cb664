// What servers and clients send to our client and our traces: answers, server-sent events, URLs and
// the headers of traces. What is read must not depend on how the bytes are cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "net/response_parser.h"
#include "net/sse_reader.h"
#include "net/trace_context.h"
#include "net/url.h"

namespace {

using namespace glint;

constexpr std::size_t kMaxBody = 512;

struct Outcome {
  std::string body, pieces, events;
  int status = 0;
  bool ok = true, done = false;
};

Outcome read(std::string_view text, std::size_t piece, bool streamed) {
  Outcome out;
  SseReader sse(
      [&](std::string_view event, std::string_view data) {
        out.events.append(event).append("\n").append(data).append("\n");
        return true;
      },
      kMaxBody);
  ResponseParser::Options options = {.max_body_bytes = kMaxBody};
  if (streamed) {
    options.on_piece = [&](std::string_view bytes) {
      out.pieces += bytes;
      sse.feed(bytes);
      return true;
    };
  }
  ResponseParser parser(options);
  while (!text.empty() && out.ok && !parser.done()) {
    out.ok = parser.feed(text.substr(0, piece)).ok();
    text.remove_prefix(std::min(piece, text.size()));
  }
  if (out.ok && !parser.done()) out.ok = parser.feed_end().ok();
  out.done = parser.done();
  HttpResponse response = parser.take();
  GLINT_CHECK(response.body.size() <= kMaxBody, "a body beyond the limit");
  out.status = response.status;
  out.body = std::move(response.body);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const bool streamed = data[0] & 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(text, text.size(), streamed);
  const Outcome pieces = read(text, 1 + data[0] / 2, streamed);
  GLINT_CHECK(whole.ok == pieces.ok, "whether it is valid depends on the pieces");
  if (whole.ok) {
    GLINT_CHECK(whole.status == pieces.status && whole.body == pieces.body &&
                    whole.pieces == pieces.pieces && whole.done == pieces.done,
                "an answer depends on the pieces");
    GLINT_CHECK(whole.events.size() <= text.size() * 2, "events out of nothing");
  }
  if (const Result<Url> url = parse_url(text); url.ok()) {
    const Url& u = url.value();
    const std::string again = (u.tls ? "https://" : "http://") + authority(u) + u.path;
    const Result<Url> second = parse_url(again);
    GLINT_CHECK(second.ok() && second.value().host == u.host && second.value().port == u.port &&
                    second.value().path == u.path,
                "a URL that is written reads differently");
  }
  if (const auto context = parse_trace_context(text, text)) {
    GLINT_CHECK(parse_trace_context(format_traceparent(*context)),
                "a trace that is written is none");
  }
  return 0;
}
