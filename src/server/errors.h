// ApiError: why a request is refused, and how each API says it.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "net/http_server.h"

namespace glint {

struct ApiError {
  int status = 400;
  std::string message = {};  // one sentence
  std::string param = {};    // path of the field: "messages[2].content"
  std::string code = {};     // "model_not_found"; empty: null
  double retry_after = 0;    // seconds; 0: no header
};

// What a failed Result means to a client.
ApiError api_error(const Error& error);

// The prompt, or the prompt and the answer, are longer than the context. In vLLM's words, which
// agents look for.
ApiError too_long_error(int context, int max_tokens, int prompt_tokens);

// /v1/messages has an error body of its own.
enum class ErrorStyle { kOpenAi, kAnthropic };
ErrorStyle error_style(const std::string& path);

Json error_json(const ApiError& error, ErrorStyle style);
HttpResponse error_response(const ApiError& error, ErrorStyle style);

// {"content-type": "application/json"} and `json` as body.
HttpResponse json_response(const Json& json, int status = 200);

}  // namespace glint
