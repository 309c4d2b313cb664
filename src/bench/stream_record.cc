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

double StreamRecord::e2el_ms() const { return to_ms(chunks.back() - start); }

double StreamRecord::tokens_of_chunk(std::size_t chunk) const {
  if (!tokens.empty()) return static_cast<double>(chunk_tokens[chunk]);
  return static_cast<double>(usage_tokens) / static_cast<double>(chunks.size());
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
  if (const Json* error = chunk.value().find("error"); error && !error->is_null())
    return fail("the server says: " + dump_json(*error));
  return on_chunk(chunk.value());
}

void StreamReader::read_usage(const Json& chunk) {
  const Json* usage = chunk.find("usage");
  if (!usage || !usage->is_object()) return;
  const Json* count = usage->find("completion_tokens");
  if (count && count->is_int()) record_.usage_tokens = count->as_int();
  const Json* prompt = usage->find("prompt_tokens");
  if (prompt && prompt->is_int()) record_.prompt_tokens = prompt->as_int();
}

bool StreamReader::on_chunk(const Json& chunk) {
  read_usage(chunk);
  const Json* choices = chunk.find("choices");
  if (!choices || !choices->is_array()) return fail("a chunk has no choices");
  if (choices->as_array().empty()) return true;
  if (finished_) return fail("a chunk came after the finish_reason");
  record_.chunks.push_back(now_);
  return read_choice(choices->as_array().front());
}

bool StreamReader::read_choice(const Json& choice) {
  record_.chunk_tokens.push_back(0);
  if (const Json* ids = choice.find("token_ids"); ids && ids->is_array()) {
    for (const Json& id : ids->as_array()) {
      if (!id.is_int()) return fail("token_ids holds what is no integer");
      record_.tokens.push_back(id.as_int());
      ++record_.chunk_tokens.back();
    }
  }
  const Json* delta = choice.find("delta");  // of chat; completions have the text itself
  const Json* text = delta && delta->is_object() ? delta->find("content") : choice.find("text");
  if (text && text->is_string()) record_.text += text->as_string();
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
  } else if (want_tokens <= 0) {
    const auto chunks = static_cast<std::int64_t>(record_.chunks.size());
    if (record_.usage_tokens < 0) record_.usage_tokens = chunks;
  } else if (record_.usage_tokens < 0) {
    fail(
        "the stream has no usage.completion_tokens, which tells whether the answer is whole; "
        "with --no-ignore-eos its chunks count");
  } else if (record_.usage_tokens != want_tokens) {
    fail(str("the server counts ", counted(record_.usage_tokens, "token"), "; ", want_tokens,
             " were asked"));
  } else if (!record_.tokens.empty() &&
             static_cast<std::int64_t>(record_.tokens.size()) != want_tokens) {
    fail(str(record_.tokens.size(), " token ids came; ", want_tokens, " were asked"));
  }
}

}  // namespace glint
