// For tests of requests: a body as the server reads it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "server/dialects/openai_request.h"

namespace glint {

struct Parsed {
  ApiRequest request;
  std::optional<ApiError> error;
};

// A model "m" of 100 positions.
inline const ServerConfig& config() {
  static const ServerConfig the_config = {
      .served_names = {"m"},
      .max_model_len = 100,
      .defaults = {.sampling = {.temperature = 0.7, .top_p = 0.9}}};
  return the_config;
}

// `body` for that model, of 1,000 words.
inline Parsed parse(const std::string& body, Api api, ReadRequest read) {
  auto request = parse_request(parse_json(body).value(), api, read, {config(), 1000});
  if (!request.ok()) return {.request = {}, .error = request.error()};
  return {.request = std::move(request).value(), .error = {}};
}

inline std::string json_of(const ChatInput& chat) { return dump_json(Json(chat.messages)); }

}  // namespace glint
