// The routes that generate: OpenAI's, Anthropic's and SGLang's.
#include "server/anthropic.h"
#include "server/openai_request.h"
#include "server/responses_api.h"
#include "server/server_core.h"
#include "server/sglang_generate.h"

namespace glint {
namespace {

Route generate_route(ServerCore& core, const char* path, const char* summary, Api api,
                     ReadRequest read) {
  return {.method = "POST",
          .path = path,
          .summary = summary,
          .handle =
              [&core, api, read](const HttpRequest&, const Json& json, Reply reply) {
                core.generations->submit(json, api, read, std::move(reply));
              },
          .describe =
              [&core, api, read](RequestReader& r) {
                const ParseContext context = {core.config, kAnyVocab};
                ApiRequest scratch = default_request(api, context);
                read(r, scratch, context);
              },
          .streams = true};
}

// One token from the model: proof that it generates.
void generate_one(ServerCore& core, Reply reply) {
  ApiRequest request = default_request(Api::kGenerate, core.generations->parse_context());
  request.prompts.push_back({.tokens = std::vector<TokenId>{0}});
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  core.generations->submit(std::move(request), std::move(reply));
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
                    .handle = [&core](const HttpRequest&, const Json&,
                                      Reply reply) { generate_one(core, std::move(reply)); },
                    .access = RouteAccess::kFree});
}

}  // namespace glint
