// tokenizer.json: what loads must encode and decode any text, streaming as at once. The input is a
// file, a zero byte and a text.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glint;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(input.find('\0'), size);
  const Result<Tokenizer> tokenizer = Tokenizer::parse(input.substr(0, zero));
  if (!tokenizer.ok()) {
    GLINT_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  const auto ids = tokenizer.value().encode(input.substr(std::min(zero + 1, size)).substr(0, 1000));
  if (!ids.ok()) return 0;
  Detokenizer detokenizer(tokenizer.value());
  std::string text;
  for (const TokenId id : ids.value()) {
    const std::string piece = detokenizer.feed(id);
    GLINT_CHECK(is_valid_utf8(piece), "half a character was emitted");
    text += piece;
  }
  text += detokenizer.flush();
  GLINT_CHECK(text == tokenizer.value().decode(ids.value()), "streaming decodes differently");
  return 0;
}
