// Any tokens as an answer: what streams is what the whole gives, and arguments are JSON.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "text/answer/delta_parser.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace {

constexpr const char* kMarkers[] = {"<think>",      "</think>",     "<tool_call>",
                                    "</tool_call>", "<arg_key>",    "</arg_key>",
                                    "<arg_value>",  "</arg_value>", "<|user|>"};

const glint::Tokenizer& tokenizer() {
  static const glint::Tokenizer tokenizer = [] {
    glint::Json file = glint::byte_level_file({});
    glint::Json::Array added;
    for (const char* marker : kMarkers)
      added.push_back(glint::added_token(256 + static_cast<int>(added.size()), marker,
                                         marker == std::string_view("<|user|>")));
    file.set("added_tokens", std::move(added));
    return glint::Tokenizer::parse(glint::dump_json(file)).value();
  }();
  return tokenizer;
}

glint::DeltaOptions options(unsigned flags) {
  glint::DeltaOptions options{.parse_reasoning = (flags & 1) != 0,
                              .in_reasoning = (flags & 2) != 0,
                              .parse_tools = (flags & 4) != 0,
                              .include_stop = (flags & 16) != 0,
                              .skip_special = (flags & 32) != 0};
  if (flags & 8) {
    options.tools = {{"f", glint::json_of(R"({"properties":{"i":{"type":["integer","null"]},
        "o":{"type":"object","properties":{"x":{"type":"number"}}},"s":{"type":"string"}}})")}};
  }
  if (flags & 64) options.stop = {"ab", "b<think>", "\n\n"};
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // A byte from 0xf0 is a marker; the others are themselves.
  std::vector<glint::TokenId> tokens;
  for (std::size_t i = 2; i < size; ++i)
    tokens.push_back(data[i] >= 0xf0 ? 256 + (data[i] - 0xf0) % 9 : data[i]);
  glint::ParsedAnswer whole, streamed;
  {
    glint::DeltaParser parser(tokenizer(), options(data[0]));
    whole.add(parser.feed(tokens));
    whole.add(parser.finish());
    GLINT_CHECK(static_cast<int>(whole.calls.size()) == parser.num_tools(),
                "calls are counted wrong");
  }
  glint::DeltaParser parser(tokenizer(), options(data[0]));
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t n = std::min<std::size_t>(1 + data[1] % 7, tokens.size() - at);
    streamed.add(parser.feed(std::span(tokens).subspan(at, n)));
    at += n;
  }
  streamed.add(parser.finish());
  GLINT_CHECK(whole.reasoning == streamed.reasoning && whole.content == streamed.content,
              "texts depend on the pieces");
  GLINT_CHECK(whole.calls.size() == streamed.calls.size(), "calls depend on the pieces");
  for (std::size_t i = 0; i < whole.calls.size(); ++i) {
    GLINT_CHECK(whole.calls[i].name == streamed.calls[i].name, "a name depends on the pieces");
    GLINT_CHECK(whole.calls[i].arguments == streamed.calls[i].arguments,
                "arguments depend on the pieces");
    GLINT_CHECK(glint::parse_json(whole.calls[i].arguments).ok(), "arguments are no JSON");
  }
  return 0;
}
