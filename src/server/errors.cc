#include "server/errors.h"

#include <cmath>

#include "base/cut_text.h"
#include "base/str.h"

namespace glint {
namespace {

// Longer texts are cut. Our sentences quote at most 200 bytes of a request; a model's template may
// raise an error of any length.
constexpr std::size_t kMaxErrorBytes = 2000;

// OpenAI's `type`.
const char* openai_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    case 401:
    case 403:
    case 404:
    case 429:
      return openai_type(status);
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiError api_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return {.status = 404, .message = error.message};
    case ErrorCode::kResourceExhausted:
      return {.status = 429, .message = error.message, .code = "queue_full", .retry_after = 1};
    case ErrorCode::kUnavailable:
      return {.status = 503, .message = error.message, .retry_after = 1};
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      break;
  }
  return {.status = 400, .message = error.message};
}

ApiError too_long_error(int context, int max_tokens, int prompt_tokens, bool at_least) {
  const char* bound = at_least ? "at least " : "";
  const std::int64_t total = std::int64_t{max_tokens} + prompt_tokens;
  return {
      .status = 400,
      .message = str("This model's maximum context length is ", context,
                     " tokens. However, you requested ", max_tokens,
                     " output tokens and your prompt contains ", bound, prompt_tokens,
                     " input tokens, for a total of ", bound, total,
                     " tokens. Please reduce the length of the input prompt or the number of "
                     "requested output tokens."),
      .param = "input_tokens",
      .code = "context_length_exceeded",
      .anthropic_message =
          prompt_tokens >= context
              ? str("prompt is too long: ", bound, prompt_tokens, " tokens > ", context, " maximum")
              : str("input length and `max_tokens` exceed context limit: ", prompt_tokens, " + ",
                    max_tokens, " > ", context,
                    ", decrease input length or `max_tokens` and try again")};
}

ApiError out_of_memory_error() {
  return {.status = 503,
          .message = "the server is out of memory for this request; send less, or try again later",
          .code = "out_of_memory",
          .retry_after = 1};
}

ApiError not_ready_error(const char* state) {
  return {.status = 503,
          .message = str("the server is ", state, "; try again later"),
          .code = state,
          .retry_after = 5};
}

ErrorStyle error_style(const std::string& path) {
  return path.starts_with("/v1/messages") ? ErrorStyle::kAnthropic : ErrorStyle::kOpenAi;
}

Json error_json(const ApiError& error, ErrorStyle style, const std::string& request_id) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(cut_text(text, kMaxErrorBytes));
  };
  if (style == ErrorStyle::kAnthropic) {
    const std::string message = cut_text(
        error.anthropic_message.empty() ? error.message : error.anthropic_message, kMaxErrorBytes);
    return Json::Object{
        {"type", "error"},
        {"error", Json::Object{{"type", anthropic_type(error.status)}, {"message", message}}},
        {"request_id", or_null(request_id)}};
  }
  return Json::Object{{"error", Json::Object{{"message", cut_text(error.message, kMaxErrorBytes)},
                                             {"type", openai_type(error.status)},
                                             {"param", or_null(error.param)},
                                             {"code", or_null(error.code)}}}};
}

HttpResponse error_response(const ApiError& error, ErrorStyle style,
                            const std::string& request_id) {
  HttpResponse response = json_response(error_json(error, style, request_id), error.status);
  if (error.retry_after > 0)
    response.headers.emplace_back("retry-after",
                                  str(static_cast<std::int64_t>(std::ceil(error.retry_after))));
  if (!error.allow.empty()) response.headers.emplace_back("allow", error.allow);
  return response;
}

HttpResponse json_response(const Json& json, int status) {
  return json_response(dump_json(json), status);
}

HttpResponse json_response(std::string json, int status) {
  return {
      .status = status, .headers = {{"content-type", "application/json"}}, .body = std::move(json)};
}

}  // namespace glint
