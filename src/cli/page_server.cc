#include "cli/page_server.h"

#include "base/str.h"

namespace glint {

Result<std::unique_ptr<PageServer>> PageServer::start(int port) {
  std::unique_ptr<PageServer> made(new PageServer);
  GLINT_TRY(made->server_,
            HttpServer::start({.port = port}, [page = made.get()](const HttpRequest& request,
                                                                  HttpExchange exchange) {
              exchange.respond(page->answer(request));
            }));
  return made;
}

void PageServer::set(std::string html) {
  const std::lock_guard lock(mutex_);
  html_ = std::move(html);
}

std::string PageServer::url() const { return str("http://127.0.0.1:", server_->port(), "/"); }

HttpResponse PageServer::answer(const HttpRequest& request) {
  if (request.path != "/") return {.status = 404, .body = "there is one page here: /\n"};
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .headers = {{"allow", "GET, HEAD"}}};
  }
  const std::lock_guard lock(mutex_);
  return {.headers = {{"content-type", "text/html; charset=utf-8"}, {"cache-control", "no-store"}},
          .body = html_};
}

}  // namespace glint
