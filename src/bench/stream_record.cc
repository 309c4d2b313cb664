#include "bench/stream_record.h"

#include <utility>

#include "base/str.h"

namespace glint {
double to_ms(BenchClock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

double StreamRecord::ttft_ms() const { return to_ms(chunks.front() - start); }

double StreamRecord::tpot_ms() const {
  return to_ms(chunks.back() - chunks.front()) / static_cast<double>(usage_tokens - 1);
}

StreamReader::StreamReader(StreamRecord& record)
    : record_(record),
      sse_([this](std::string_view, std::string_view data) { return on_event(data); }) {}

bool StreamReader::fail(std::string why) {
  if (record_.failure.empty()) record_.failure = std::move(why);
  return false;
}

bool StreamReader::feed(std::string_view bytes, BenchClock::time_point now) {
  now_ = now;
  return sse_.feed(bytes) || fail("an event of the stream is too long");
}

bool StreamReader::on_event(std::string_view data) {
  if (done_) return fail("an event came after [DONE]");
  if (data == "[DONE]") return done_ = true;
  const Result<Json> chunk = parse_json(data);
  if (!chunk.ok()) return fail(str("a chunk is no JSON: ", chunk.error().message));
  if (const Json* error = chunk.value().find("error"))
    return fail("the server says: " + dump_json(*error));
  return on_chunk(chunk.value());
}

bool StreamReader::on_chunk(const Json& chunk) {
  if (const Json* usage = chunk.find("usage"); usage && usage->is_object()) {
    const Json* count = usage->find("completion_tokens");
    if (count && count->is_int()) record_.usage_tokens = count->as_int();
  }
  const Json* choices = chunk.find("choices");
  if (!choices || !choices->is_array()) return fail("a chunk has no choices");
  if (choices->as_array().empty()) return true;
  if (finished_) return fail("a chunk came after the finish_reason");
  record_.chunks.push_back(now_);
  const Json& choice = choices->as_array().front();
  if (const Json* ids = choice.find("token_ids"); ids && ids->is_array()) {
    for (const Json& id : ids->as_array()) {
      if (!id.is_int()) return fail("token_ids holds what is no integer");
      record_.tokens.push_back(id.as_int());
    }
  }
  const Json* reason = choice.find("finish_reason");
  finished_ = reason && reason->is_string();
  return true;
}

void StreamReader::finish(std::int64_t want_tokens) {
  if (!record_.failure.empty()) return;
  if (!done_) {
    fail("the stream ended without [DONE]");
  } else if (!finished_) {
    fail("no chunk had a finish_reason");
  } else if (record_.usage_tokens != want_tokens) {
    fail(str("the server counts ", record_.usage_tokens, " tokens; ", want_tokens, " were asked"));
  } else if (!record_.tokens.empty() &&
             static_cast<std::int64_t>(record_.tokens.size()) != want_tokens) {
    fail(str(record_.tokens.size(), " token ids came; ", want_tokens, " were asked"));
  }
}

}  // namespace glint
