// The lines between the chunks of a body, looked at before Beast's parser is.
//
// Beast reads a quoted extension past the end of its line, and asserts against some lines that
// arrive in parts: it is shown whole lines only, and of them the size alone. Extensions and the
// fields behind a body mean nothing here: they are checked and left out.
#pragma once

#include <cstddef>
#include <string_view>

namespace glint {

struct ChunkLine {
  enum class State { kNeedMore, kWhole, kBad };
  State state = State::kNeedMore;
  bool last = false;           // the chunk is empty: the body ends
  std::size_t end = 0;         // where the line's CR LF stands, if it is whole
  std::string_view size = {};  // the hexadecimal digits
};

// `rest` begins with the line of the first chunk, or with the CR LF behind the chunk before.
ChunkLine look_at_chunk_line(std::string_view rest, bool first);

// The fields behind the last chunk, and the empty line that ends them.
struct Trailers {
  ChunkLine::State state = ChunkLine::State::kNeedMore;
  std::size_t bytes = 0;  // with the empty line, if they are whole
};

// `rest` begins behind the line of the last chunk.
Trailers look_at_trailers(std::string_view rest);

}  // namespace glint
