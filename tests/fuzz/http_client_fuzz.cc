// Bytes from servers and clients to our client and our traces, libcurl's part aside: server-sent
// events, URLs and the headers of traces. The result must not depend on how the bytes are cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "net/server_url.h"
#include "net/sse_reader.h"
#include "net/trace_context.h"

namespace {

using namespace glint;

constexpr std::size_t kMaxEvent = 512;

struct Outcome {
  std::string events;
  bool ok = true;
};

Outcome read(std::string_view text, std::size_t piece) {
  Outcome out;
  SseReader sse(
      [&](std::string_view event, std::string_view data) {
        out.events.append(event).append("\n").append(data).append("\n");
        return true;
      },
      kMaxEvent);
  while (!text.empty() && out.ok) {
    out.ok = sse.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(text, text.size());
  const Outcome pieces = read(text, 1 + data[0] / 2);
  GLINT_CHECK(whole.ok == pieces.ok, "whether events are too long depends on the pieces");
  if (whole.ok) {
    GLINT_CHECK(whole.events == pieces.events, "events depend on the pieces");
    GLINT_CHECK(whole.events.size() <= text.size() * 2, "events out of nothing");
  }
  if (const Result<ServerUrl> url = parse_server_url(text); url.ok()) {
    const Result<ServerUrl> again = parse_server_url(url.value().origin + url.value().path);
    GLINT_CHECK(again.ok() && again.value().origin == url.value().origin &&
                    again.value().path == url.value().path,
                "a URL that is written reads differently");
  }
  if (const auto context = parse_trace_context(text, text)) {
    GLINT_CHECK(parse_trace_context(format_traceparent(*context)),
                "a trace that is written is none");
  }
  return 0;
}
