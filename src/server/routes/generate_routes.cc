// The routes that generate: OpenAI's, Anthropic's and SGLang's.
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "server/dialects/anthropic.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sglang_generate.h"
#include "server/server_core.h"

namespace glint {
namespace {

Result<std::vector<ApiRequest>, ApiError> parse(const Json& body, Api api, ReadRequest read,
                                                const ParseContext& context) {
  if (api == Api::kGenerate) return parse_generate(body, context);
  GLINT_TRY(ApiRequest request, parse_request(body, api, read, context));
  return std::vector{std::move(request)};
}

// Requests that keep this much of their bodies while they wait and run keep them counted.
constexpr std::size_t kMuchKept = std::size_t{64} << 10;

bool keeps_much(const ApiRequest& request) {
  const std::size_t ids = request.sampling.allowed_ids.size() * sizeof(TokenId);
  return request.form.echoed.size() + ids >= kMuchKept;
}

Route generate_route(ServerCore& core, const char* path, const char* summary, Api api,
                     ReadRequest read) {
  return {.method = "POST",
          .path = path,
          .summary = summary,
          .handle =
              [&core, api, read](const HttpRequest& http, const Json& json, Reply reply) {
                auto requests = parse(json, api, read, core.generations->parse_context());
                if (!requests.ok()) return reply.fail(requests.error());
                for (ApiRequest& request : requests.value())
                  if (keeps_much(request)) request.turn.ticket = http.body_account;
                core.generations->submit(std::move(requests).value(), std::move(reply));
              },
          .describe =
              [&core, api, read](RequestReader& r) {
                const ParseContext context = {core.config, kAnyVocab};
                ApiRequest scratch = default_request(api, context);
                read(r, scratch, context);
              },
          .streams = true};
}

// One token from the model: proof that it generates. Nobody needs a key for it, so that only a few
// run at once.
void generate_one(ServerCore& core, const std::shared_ptr<std::atomic<int>>& running, Reply reply) {
  constexpr int kMaxAtOnce = 4;
  const bool too_many = running->fetch_add(1) >= kMaxAtOnce;
  std::shared_ptr<const void> ticket(nullptr, [running](std::nullptr_t) { --*running; });
  if (too_many)
    return reply.fail({.status = 429,
                       .message = "others ask the same just now; try again",
                       .code = "queue_full",
                       .retry_after = 1});
  ApiRequest request = default_request(Api::kGenerate, core.generations->parse_context());
  request.prompts.push_back({.tokens = std::vector<TokenId>{0}});
  request.end.max_tokens = 1;
  request.sampling.temperature = 0;
  request.turn.ticket = std::move(ticket);
  core.generations->submit({std::move(request)}, std::move(reply));
}

}  // namespace

void add_generate_routes(ServerCore& core, std::vector<Route>& routes) {
  routes.push_back(generate_route(core, "/v1/chat/completions", "Answer a conversation.",
                                  Api::kChat, read_chat));
  routes.push_back(generate_route(core, "/v1/completions", "Continue a text or tokens.",
                                  Api::kCompletions, read_completion));
  routes.push_back(generate_route(core, "/v1/responses", "Answer items (OpenAI's Responses).",
                                  Api::kResponses, read_responses));
  routes.push_back(generate_route(core, "/v1/messages", "Answer messages (Anthropic's API).",
                                  Api::kMessages, read_anthropic));
  routes.push_back(generate_route(core, "/generate",
                                  "Continue a text or tokens (SGLang's API): tokens, "
                                  "log-probabilities and routed experts.",
                                  Api::kGenerate, read_generate));
  routes.push_back({.path = "/health_generate",
                    .summary = "Generates one token.",
                    .handle = [&core, running = std::make_shared<std::atomic<int>>(0)](
                                  const HttpRequest&, const Json&,
                                  Reply reply) { generate_one(core, running, std::move(reply)); },
                    .access = RouteAccess::kFree});
}

}  // namespace glint
