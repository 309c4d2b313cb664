#include "server/telemetry/request_log.h"

#include <cmath>

#include "base/cut_text.h"
#include "base/log.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxShownBytes = 2048;  // of a prompt or an answer
constexpr std::size_t kMaxErrorBytes = 500;   // a model's template may raise an error of any length

double milliseconds(double seconds) { return std::round(seconds * 1e5) / 100; }

Json::Object fields_of(const RequestContext& context, int status, const std::string& error) {
  Json::Object fields = {{"event", "request"},
                         {"method", context.method},
                         {"route", context.route},
                         {"status", status},
                         {"request_id", context.request_id},
                         {"trace_id", context.span.trace_id},
                         {"peer", context.peer}};
  if (!error.empty()) fields.emplace_back("error", cut_text(error, kMaxErrorBytes));
  return fields;
}

// "/v1/completions 400 (req_1, 127.0.0.1:4711)".
std::string words_of(const RequestContext& context, int status) {
  return str(context.route, " ", status, " (", context.request_id, ", ", context.peer, ")");
}

Json fields_of(const RequestRecord& record, const RequestContext& context) {
  Json::Object fields = fields_of(context, record.status, record.error);
  for (auto& field : Json::Object{
           {"id", record.id},
           {"model", record.model},
           {"stream", record.stream},
           {"n", record.n},
           {"prompt_tokens", record.usage.prompt_tokens},
           {"cached_tokens", record.usage.cached_tokens},
           {"completion_tokens", record.usage.completion_tokens},
           {"finish_reason", record.finish_reasons.empty() ? "" : record.finish_reasons[0]},
           {"first_token_ms", milliseconds(record.first_token_s)},
           {"total_ms", milliseconds(record.total_s)}})
    fields.push_back(std::move(field));
  if (record.is_timed()) fields.emplace_back("queue_ms", milliseconds(record.queue_s));
  return fields;
}

std::string reason_of(const std::string& error) {
  return error.empty() ? "" : ": " + quoted(error, kMaxErrorBytes);
}

std::string words_of(const RequestRecord& r, const RequestContext& context) {
  return str(words_of(context, r.status), " ", r.id, " ",
             r.finish_reasons.empty() ? "" : r.finish_reasons[0], reason_of(r.error), ": ",
             counted(r.usage.prompt_tokens, "prompt token"), " (", r.usage.cached_tokens,
             " cached), ", r.usage.completion_tokens, " answered; ",
             r.is_timed() ? str("queue ", milliseconds(r.queue_s), " ms, ") : std::string(),
             "first token ", milliseconds(r.first_token_s), " ms, total ", milliseconds(r.total_s),
             " ms");
}

}  // namespace

Span span_of(const RequestRecord& record, const RequestContext& context) {
  Json::Array reasons(record.finish_reasons.begin(), record.finish_reasons.end());
  Span span = {.context = context.span,
               .parent_span_id = context.parent_span_id,
               .name = context.method + " " + context.route,
               .start_ns = context.begin_ns,
               .end_ns = context.begin_ns + static_cast<std::int64_t>(record.total_s * 1e9)};
  span.attributes = {{"http.response.status_code", record.status},
                     {"gen_ai.request.model", record.model},
                     {"gen_ai.response.id", record.id},
                     {"gen_ai.response.finish_reasons", std::move(reasons)},
                     {"gen_ai.usage.input_tokens", record.usage.prompt_tokens},
                     {"gen_ai.usage.output_tokens", record.usage.completion_tokens},
                     {"gen_ai.usage.cached_tokens", record.usage.cached_tokens},
                     {"gen_ai.latency.time_to_first_token", record.first_token_s},
                     {"gen_ai.latency.e2e", record.total_s},
                     {"request_id", context.request_id}};
  const auto add = [&](const char* name, Json value) {
    span.attributes.emplace_back(name, std::move(value));
  };
  add("http.request.method", context.method);
  add("url.path", context.route);
  add("gen_ai.request.n", record.n);
  add("gen_ai.request.temperature", record.temperature);
  add("gen_ai.request.top_p", record.top_p);
  add("gen_ai.request.max_tokens", record.max_tokens);
  add("gen_ai.response.model", record.model);
  if (record.is_timed()) {
    add("gen_ai.latency.time_in_queue", record.queue_s);
    add("gen_ai.latency.time_in_model_prefill", record.prefill_s);
    add("gen_ai.latency.time_in_model_decode", record.decode_s);
  }
  if (record.status >= 500) span.error = record.error;
  return span;
}

void log_request(const LogConfig& config, const RequestRecord& record,
                 const RequestContext& context, const Answer& answer, const Tokenizer& tokenizer) {
  if (!config.requests || !log_enabled(LogLevel::kInfo)) return;
  Json fields = fields_of(record, context);
  std::string words = words_of(record, context);
  if (config.prompts && !answer.prompts.empty() && !answer.choices.empty()) {
    const std::string prompt = cut_text(tokenizer.decode(answer.prompts[0]), kMaxShownBytes);
    const std::string text = cut_text(tokenizer.decode(answer.choices[0].tokens), kMaxShownBytes);
    fields.set("prompt", prompt);
    fields.set("answer", text);
    words +=
        str("; prompt ", quoted(prompt, prompt.size()), ", answer ", quoted(text, text.size()));
  }
  log_fields(LogLevel::kInfo, words, dump_json(fields));
}

void log_answer(const RequestContext& context, int status, const std::string& error) {
  const bool is_told = status >= 400 || context.method == "POST";
  if (!context.wants_log || !is_told || !log_enabled(LogLevel::kInfo)) return;
  Json::Object fields = fields_of(context, status, error);
  std::string words = words_of(context, status) + reason_of(error);
  if (context.is_timed()) {
    const double total = milliseconds(context.seconds());
    fields.emplace_back("total_ms", total);
    words += str("; total ", total, " ms");
  }
  log_fields(LogLevel::kInfo, words, dump_json(fields));
}

}  // namespace glint
