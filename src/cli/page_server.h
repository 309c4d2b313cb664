// One page that changes, over HTTP: a run that is looked at while it goes on.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "net/http_server.h"

namespace glint {

class PageServer {
 public:
  // Serves GET / at 127.0.0.1; port 0: any free one. Fails if the port is taken.
  static Result<std::unique_ptr<PageServer>> start(int port);

  void set(std::string html);  // from any thread
  std::string url() const;

 private:
  PageServer() = default;
  HttpResponse answer(const HttpRequest& request);

  std::mutex mutex_;
  std::string html_;
  std::unique_ptr<HttpServer> server_;  // last: its thread reads the others
};

}  // namespace glint
