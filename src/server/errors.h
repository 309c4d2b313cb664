// ApiError: why a request is refused, and how each API says it.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "net/http_server.h"

namespace glint {

struct ApiError {
  int status = 400;
  std::string message = {};            // one sentence
  std::string param = {};              // path of the field: "messages[2].content"
  std::string code = {};               // "model_not_found"; empty: null
  std::string anthropic_message = {};  // what Anthropic's API says of it; empty: `message`
  double retry_after = 0;              // seconds; 0: no header
  std::string allow = {};              // the methods that the path takes; empty: no header
};

using ApiStatus = Result<Ok, ApiError>;

// The client's view of a failed Result.
ApiError api_error(const Error& error);

// The prompt, or the prompt and the answer, are longer than the context. In the words of vLLM and
// of Anthropic, which agents look for: one makes them shorten the conversation, another max_tokens.
ApiError too_long_error(int context, int max_tokens, int prompt_tokens, bool at_least = false);

// The error of a request for which memory ran out.
ApiError out_of_memory_error();

// The error of a request to a server that is in this state: "starting", "draining".
ApiError not_ready_error(const char* state);

// /v1/messages has an error body of its own.
enum class ErrorStyle { kOpenAi, kAnthropic };
ErrorStyle error_style(const std::string& path);

// Anthropic's also names the request.
Json error_json(const ApiError& error, ErrorStyle style, const std::string& request_id = {});
HttpResponse error_response(const ApiError& error, ErrorStyle style,
                            const std::string& request_id = {});

// {"content-type": "application/json"} and `json` as body.
HttpResponse json_response(const Json& json, int status = 200);
HttpResponse json_response(std::string json, int status = 200);  // that is text already

}  // namespace glint
