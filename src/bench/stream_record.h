// StreamRecord: what one streamed completion was, as its client saw it; and StreamReader, which
// makes it out of the pieces of the answer. Whatever a whole answer must have and this one has not
// is a failure, in words.
//
// The definitions are those of the common serving benchmarks: the time to the first token (TTFT)
// ends with the first chunk that has choices; inter-token latencies (ITL) are the gaps between such
// chunks; the time per output token (TPOT) is (end - first) / (tokens - 1).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "net/sse_reader.h"

namespace glint {

using BenchClock = std::chrono::steady_clock;

double to_ms(BenchClock::duration d);

struct StreamRecord {
  BenchClock::time_point start = {};
  std::vector<BenchClock::time_point> chunks = {};  // when each chunk with choices came
  std::vector<std::int64_t> chunk_tokens = {};      // ids of each; none if the server sends no ids
  std::vector<std::int64_t> tokens = {};            // their ids, in the order in which they came
  std::string text = {};                            // of the answer, without its reasoning
  std::int64_t usage_tokens = -1;                   // as the server counted them
  std::int64_t prompt_tokens = 0;                   // likewise
  std::string failure = {};                         // empty: the answer is whole

  double ttft_ms() const;  // of a record with chunks
  double tpot_ms() const;  // of one with two tokens or more
  double e2el_ms() const;  // from the start to the last chunk

  // How many tokens came with a chunk: drafts that are accepted come several at once. Where the
  // server sends no ids, the tokens are spread over the chunks.
  double tokens_of_chunk(std::size_t chunk) const;
};

class StreamReader {
 public:
  explicit StreamReader(StreamRecord& record);
  StreamReader(const StreamReader&) = delete;  // its SseReader calls back
  StreamReader& operator=(const StreamReader&) = delete;

  // Takes bytes that arrived at `now`. False: the rest of the answer is not worth reading.
  bool feed(std::string_view bytes, BenchClock::time_point now);
  bool failed() const { return !record_.failure.empty(); }

  // At the end of the answer: it must be whole, with `want_tokens` tokens if that is not 0. A
  // server that counts no tokens is taken to send one with each chunk.
  void finish(std::int64_t want_tokens);

 private:
  bool on_event(std::string_view data);
  bool on_chunk(const Json& chunk);
  void read_usage(const Json& chunk);
  bool read_choice(const Json& choice);
  bool fail(std::string why);

  StreamRecord& record_;
  SseReader sse_;
  BenchClock::time_point now_ = {};
  bool finished_ = false;  // a finish_reason came
  bool done_ = false;      // [DONE] came
};

}  // namespace glint
