#include "server/routes/openapi.h"

#include "base/str.h"

namespace glint {
namespace {

Json content(const char* type, Json schema) {
  return Json::Object{{type, Json::Object{{"schema", std::move(schema)}}}};
}

Json response(const char* description, const char* type, Json schema) {
  return Json::Object{{"description", description}, {"content", content(type, std::move(schema))}};
}

Json any_object() { return Json::Object{{"type", "object"}}; }

Json operation(const Route& route) {
  const bool text = std::string_view(route.path) == "/metrics";
  Json ok = response("done", text ? "text/plain" : "application/json",
                     text ? Json(Json::Object{{"type", "string"}}) : Json(Json::Object{}));
  if (route.streams) {
    Json types = *ok.find("content");
    types.set("text/event-stream", Json::Object{{"schema", Json::Object{{"type", "string"}}}});
    ok.set("content", std::move(types));
  }
  Json responses = Json::Object{{"200", std::move(ok)}};
  responses.set("default", response("refused", "application/json", any_object()));
  Json out = Json::Object{{"summary", route.summary}};
  if (route.prefix)
    out.set("parameters", Json::Array{Json::Object{{"name", "id"},
                                                   {"in", "path"},
                                                   {"required", true},
                                                   {"schema", Json::Object{{"type", "string"}}}}});
  if (route.describe) {
    Json schema;
    RequestReader reader(schema);
    route.describe(reader);
    // Without one, admin routes read {}.
    const bool optional =
        route.access == RouteAccess::kAdmin && read_body(Json(Json::Object{}), route.describe).ok();
    out.set("requestBody", Json::Object{{"required", !optional},
                                        {"content", content("application/json", schema)}});
  }
  out.set("responses", std::move(responses));
  if (route.access == RouteAccess::kFree) out.set("security", Json::Array{});
  return out;
}

}  // namespace

Json openapi_json(const std::vector<Route>& routes, const ServerConfig& config) {
  Json paths = Json::Object{};
  for (const Route& route : routes) {
    const std::string path = route.prefix ? str(route.path, "{id}") : route.path;
    const Json* known = paths.find(path);
    Json methods = known ? *known : Json(Json::Object{});
    methods.set(lower(route.method), operation(route));
    paths.set(path, std::move(methods));
  }
  Json out = Json::Object{{"openapi", "3.1.0"},
                          {"info", Json::Object{{"title", "glint"}, {"version", config.version}}},
                          {"paths", std::move(paths)}};
  if (!config.access.api_keys.empty()) {
    out.set("components",
            Json::Object{
                {"securitySchemes",
                 Json::Object{{"key", Json::Object{{"type", "http"}, {"scheme", "bearer"}}}}}});
    out.set("security", Json::Array{Json::Object{{"key", Json::Array{}}}});
  }
  return out;
}

}  // namespace glint
