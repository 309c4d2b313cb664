// The routes that tell what the server is and does.
#include <algorithm>
#include <ctime>

#include "base/str.h"
#include "server/routes/openapi.h"
#include "server/server_core.h"

namespace glint {
namespace {

// 200 while requests are served.
void health(const ServerCore& core, Reply reply) {
  if (ApiStatus status = core.ready(); !status.ok()) return reply.fail(status.error());
  if (!core.generations->executor().ready()) {
    return reply.fail({.status = 503,
                       .message = "ranks were lost and start again",
                       .code = "recovering",
                       .retry_after = 5});
  }
  reply.respond(Json::Object{{"status", "ok"}});
}

// As vLLM has it; of the fields only allow_sampling and allow_logprobs mean something.
Json permission_json(const ServerCore& core) {
  return Json::Object{{"id", "modelperm-glint"},
                      {"object", "model_permission"},
                      {"created", core.started},
                      {"allow_create_engine", false},
                      {"allow_sampling", true},
                      {"allow_logprobs", true},
                      {"allow_search_indices", false},
                      {"allow_view", true},
                      {"allow_fine_tuning", false},
                      {"organization", "*"},
                      {"group", Json()},
                      {"is_blocking", false}};
}

Json model_json(const ServerCore& core, const std::string& name) {
  return Json::Object{{"id", name},
                      {"object", "model"},
                      {"created", core.started},
                      {"owned_by", "glint"},
                      {"root", core.config.model_path},
                      {"parent", Json()},
                      {"max_model_len", core.config.max_model_len},
                      {"permission", Json::Array{permission_json(core)}}};
}

// The model in Anthropic's words.
Json anthropic_model_json(const ServerCore& core, const std::string& name) {
  const std::time_t started = core.started;
  std::tm utc = {};
  gmtime_r(&started, &utc);
  char created[32];
  std::strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return Json::Object{
      {"type", "model"}, {"id", name}, {"display_name", name}, {"created_at", created}};
}

bool is_anthropic(const HttpRequest& request) {
  return !request.header("anthropic-version").empty();
}

void all_models(const ServerCore& core, const HttpRequest& request, Reply reply) {
  const bool anthropic = is_anthropic(request);
  const std::vector<std::string>& names = core.config.served_names;
  Json::Array all;
  for (std::size_t i = 0; i < std::min(names.size(), core.config.num_listed_names); ++i)
    all.push_back(anthropic ? anthropic_model_json(core, names[i]) : model_json(core, names[i]));
  if (!anthropic) return reply.respond(Json::Object{{"object", "list"}, {"data", std::move(all)}});
  const Json first = *all.front().find("id"), last = *all.back().find("id");
  reply.respond(Json::Object{
      {"data", std::move(all)}, {"has_more", false}, {"first_id", first}, {"last_id", last}});
}

void one_model(const ServerCore& core, const HttpRequest& request, Reply reply) {
  const std::string name = request.path.substr(sizeof("/v1/models/") - 1);
  if (ApiStatus status = core.generations->check_model(name); !status.ok())
    return reply.fail(status.error());
  reply.respond(is_anthropic(request) ? anthropic_model_json(core, name) : model_json(core, name));
}

Json stats_json(const EngineStats& s) {
  const auto count = [](std::uint64_t n) { return Json(static_cast<std::int64_t>(n)); };
  Json::Array accepted(s.accepted_per_position.size());
  for (std::size_t i = 0; i < accepted.size(); ++i) accepted[i] = count(s.accepted_per_position[i]);
  return Json::Object{{"running", s.num_running},
                      {"waiting", s.num_waiting},
                      {"paused", s.paused},
                      {"used_pages", s.used_pages},
                      {"total_pages", s.total_pages},
                      {"page_size", s.page_size},
                      {"steps", count(s.steps)},
                      {"preemptions", count(s.preemptions)},
                      {"prompt_tokens", count(s.prompt_tokens)},
                      {"cached_prompt_tokens", count(s.cached_prompt_tokens)},
                      {"generated_tokens", count(s.generated_tokens)},
                      {"prefix_queries", count(s.prefix_queries)},
                      {"prefix_hits", count(s.prefix_hits)},
                      {"drafts", count(s.drafts)},
                      {"drafted_tokens", count(s.drafted_tokens)},
                      {"accepted_tokens", count(s.accepted_tokens)},
                      {"accepted_per_position", std::move(accepted)},
                      {"step_seconds", s.step_seconds},
                      {"overhead_seconds", s.overhead_seconds},
                      {"tokens_per_second", s.tokens_per_second},
                      {"predicted_wait_seconds", s.predicted_wait_seconds}};
}

// Tokens that each expert got since the start: {"layers": [1, 2, ...], "tokens": [[...], ...]}
Json expert_load_json(const Executor& executor) {
  const ExecutorInfo& info = executor.info();
  const std::vector<std::uint64_t> load = executor.expert_load();
  const auto experts = static_cast<std::size_t>(info.num_experts);
  Json::Array layers, tokens;
  for (std::size_t i = 0; experts > 0 && (i + 1) * experts <= load.size(); ++i) {
    layers.push_back(i < info.moe_layers.size() ? info.moe_layers[i] : static_cast<int>(i));
    Json::Array row;
    for (std::size_t e = 0; e < experts; ++e)
      row.push_back(static_cast<std::int64_t>(load[i * experts + e]));
    tokens.push_back(std::move(row));
  }
  return Json::Object{{"layers", std::move(layers)}, {"tokens", std::move(tokens)}};
}

std::optional<ExpertPlaces> expert_places(const ServerCore& core) {
  Generations* const g = core.opened();
  return g ? g->executor().expert_places() : std::nullopt;
}

// Where experts lie that move between ranks: {.., "layers": {"3": [expert of each slot]}}
Json expert_places_json(const ServerCore& core) {
  const std::optional<ExpertPlaces> places = expert_places(core);
  if (!places) return Json();
  const std::vector<int>& layers = core.opened()->executor().info().moe_layers;
  const auto count = [](std::uint64_t n) { return Json(static_cast<std::int64_t>(n)); };
  Json::Object slots;
  for (std::size_t i = 0; i < places->slots.size(); ++i) {
    slots.emplace_back(std::to_string(layers[i]),
                       Json::Array(places->slots[i].begin(), places->slots[i].end()));
  }
  return Json::Object{{"ranks", places->num_ranks},
                      {"looks", count(places->looks)},
                      {"moved_layers", count(places->moved_layers)},
                      {"moved_experts", count(places->moved_experts)},
                      {"imbalance_before", places->imbalance_before},
                      {"imbalance_after", places->imbalance_after},
                      {"layers", std::move(slots)}};
}

Json engine_json(const ServerCore& core) {
  Json out = stats_json(core.generations->engine().stats());
  out.set("expert_load", expert_load_json(core.generations->executor()));
  return out;
}

Json server_info(const ServerCore& core) {
  Generations* const g = core.opened();
  return Json::Object{{"version", core.config.version},
                      {"state", core.state_name()},
                      {"model_path", core.config.model_path},
                      {"served_model_name", core.config.served_names.front()},
                      {"max_model_len", core.config.max_model_len},
                      {"config", core.config.info},
                      {"ranks", g ? g->ranks() : Json()},
                      {"experts", expert_places_json(core)},
                      {"engine", stats_json(core.stats())}};
}

Json model_info(const ServerCore& core) {
  const auto& build = core.config.trainers.build;
  const Result<std::string> told = build ? build() : std::string();
  Generations* const g = core.opened();
  return Json::Object{{"model_path", core.config.model_path},
                      {"tokenizer_path", core.config.model_path},
                      {"is_generation", true},
                      {"weight_version", g ? g->weights().load() : "default"},
                      {"max_model_len", core.config.max_model_len},
                      {"state", core.state_name()},
                      {"build", told.ok() ? Json(told.value()) : Json()},
                      {"vocabulary", g ? Json(g->model().vocabulary) : Json()}};
}

struct KeysRequest {
  std::vector<TokenId> tokens;
  std::optional<int> position;
};

void read_keys(RequestReader& r, KeysRequest& request, TokenId vocab_size) {
  r.tokens("tokens", request.tokens, vocab_size);
  r.require("tokens");
  r.integer("position", request.position);
  if (!r.reading() || !r.ok()) return;
  const int count = static_cast<int>(request.tokens.size());
  if (count == 0) return r.fail("tokens", "tokens is empty; expected at least one");
  if (request.position.value_or(0) >= count)
    r.fail("position", str("position is ", *request.position, ", but there are ", count,
                           " tokens: it must be below that"));
}

// Which earlier positions the token at `position` (default: the last) read through sparse
// attention. Runs the prompt up to it.
void selected_keys(ServerCore& core, const Json& json, Reply reply) {
  Generations& g = *core.generations;
  KeysRequest keys;
  const ApiStatus status =
      read_body(json, [&](RequestReader& r) { read_keys(r, keys, g.model().vocab_size); });
  if (!status.ok()) return reply.fail(status.error());
  if (keys.position) keys.tokens.resize(static_cast<std::size_t>(*keys.position) + 1);
  ApiRequest request = default_request(Api::kKeys, g.parse_context());
  request.prompts.push_back({.tokens = std::move(keys.tokens)});
  request.end.max_tokens = 1;
  request.sampling.temperature = 0;
  request.facts.keys = true;
  g.submit({std::move(request)}, std::move(reply));
}

Route get(const char* path, const char* summary, std::function<void(Reply)> answer) {
  return {.path = path,
          .summary = summary,
          .handle = [answer = std::move(answer)](const HttpRequest&, const Json&,
                                                 Reply reply) { answer(std::move(reply)); },
          .needs_model = false,
          .quick = true};
}

}  // namespace

void add_info_routes(ServerCore& core, std::vector<Route>& routes) {
  for (const char* path : {"/health", "/ready", "/ping"}) {
    routes.push_back(get(path, "200 while requests are served.",
                         [&core](Reply reply) { health(core, std::move(reply)); }));
    routes.back().access = RouteAccess::kFree;
  }
  routes.push_back(get("/version", "The server's version.", [&core](Reply reply) {
    reply.respond(Json::Object{{"version", core.config.version}});
  }));
  routes.push_back({.path = "/v1/models",
                    .summary = "The model under its names.",
                    .handle = [&core](const HttpRequest& request, const Json&,
                                      Reply reply) { all_models(core, request, std::move(reply)); },
                    .needs_model = false,
                    .quick = true});
  routes.push_back({.path = "/v1/models/",
                    .summary = "The model under one of its names.",
                    .handle = [&core](const HttpRequest& request, const Json&,
                                      Reply reply) { one_model(core, request, std::move(reply)); },
                    .quick = true,
                    .prefix = true});
  for (const char* path : {"/server_info", "/get_server_info"})
    routes.push_back(get(path, "The plan that runs, and what the engine does.",
                         [&core](Reply reply) { reply.respond(server_info(core)); }));
  for (const char* path : {"/model_info", "/get_model_info"}) {
    routes.push_back(get(path, "What is served (SGLang's API).",
                         [&core](Reply reply) { reply.respond(model_info(core)); }));
    routes.back().quick = false;  // the first reads the program
  }
  routes.push_back(get("/metrics", "Counters in Prometheus' format.", [&core](Reply reply) {
    reply.respond(HttpResponse{.headers = {{"content-type", Metrics::content_type()}},
                               .body = core.metrics->text(core.stats(), expert_places(core))});
  }));
  routes.back().access = RouteAccess::kFree;
  routes.back().quick = false;
  routes.push_back(get("/engine", "What the engine does now, and the load of each expert.",
                       [&core](Reply reply) { reply.respond(engine_json(core)); }));
  routes.back().needs_model = true;
  routes.back().quick = false;
  routes.push_back({.method = "POST",
                    .path = "/engine/selected_keys",
                    .summary = "The positions that sparse attention read for a token.",
                    .handle = [&core](const HttpRequest&, const Json& json,
                                      Reply reply) { selected_keys(core, json, std::move(reply)); },
                    .describe =
                        [](RequestReader& r) {
                          KeysRequest scratch;
                          read_keys(r, scratch, kAnyVocab);
                        }});
  routes.push_back(get("/openapi.json", "This description.", [&core, &routes](Reply reply) {
    reply.respond(openapi_json(routes, core.config));
  }));
  routes.back().quick = false;
}

}  // namespace glint
