// Flags of `glint bench serve`: the server, and how it is reached.
#pragma once

#include <optional>
#include <string>

namespace glint {

struct ServerFlags {
  std::optional<std::string> url;
  std::string base_url, host, endpoint;
  std::optional<int> port;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("URL", url, "of the server (default: http://127.0.0.1:8000)");
    v.section("Server");
    v("base-url=URL", base_url, "the server, instead of URL");
    v("host=HOST", host, "its host, instead of a URL (default: 127.0.0.1)");
    v("port=N", port, "its port (default: 8000)");
    v("endpoint=PATH", endpoint,
      "where requests go (default: /v1/completions, or /v1/chat/completions as --backend says)");
  }
};

}  // namespace glint
