// Any bytes as a grammar: it compiles or is refused with a reason, and what its masks allow is
// accepted, without a dead end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace {

using Kind = glint::GrammarSpec::Kind;

constexpr int kVocabSize = 288;
// Longer ones take longer, which the process that compiles for a server is stopped for.
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxRegexBytes = 512;

const glint::GrammarCompiler& compiler() {
  static const glint::GrammarCompiler compiler = [] {
    glint::Json file = glint::byte_level_file({{"t", "h"}, {"th", "e"}, {"\"", ":"}, {"}", "]"}});
    glint::Json::Array added;
    for (const char* marker : {"<|user|>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>",
                               "<arg_value>", "</arg_value>"})
      added.push_back(glint::added_token(260 + static_cast<int>(added.size()), marker, false));
    file.set("added_tokens", std::move(added));
    const auto tokenizer = glint::Tokenizer::parse(glint::dump_json(file)).value();
    return glint::GrammarCompiler(glint::read_vocabulary(tokenizer, kVocabSize, {260}));
  }();
  return compiler;
}

glint::GrammarSpec spec_of(unsigned kind, std::string text) {
  glint::GrammarSpec spec{.kind = Kind::kJsonSchema};
  if (kind % 8 == 1) spec.kind = Kind::kRegex;
  if (kind % 8 == 2) spec.kind = Kind::kEbnf;
  if (kind % 8 == 3) {
    spec.kind = Kind::kChoice;
    spec.choices = {text, "x"};
    text.clear();
  }
  if (kind % 8 == 4) {
    glint::Result<glint::Json> parameters = glint::parse_json(text);
    if (parameters.ok()) {
      spec.kind = Kind::kToolCalls;
      spec.tools = {{"f", std::move(parameters).value()}};
      spec.at_least_one = (kind & 8) != 0;
      spec.parallel = (kind & 16) != 0;
    }
  }
  spec.text = std::move(text);
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const glint::GrammarSpec spec = spec_of(data[0], text);
  if (text.size() > (spec.kind == Kind::kRegex ? kMaxRegexBytes : kMaxTextBytes)) return 0;
  const auto grammar = compiler().compile(spec);
  if (!grammar.ok()) {
    GLINT_CHECK(!grammar.error().message.empty(), "an error without words");
    return 0;
  }
  const auto constraint = compiler().constrain(grammar.value(), /*after_reasoning=*/false);
  std::uint32_t bits[kVocabSize / 32];
  for (std::size_t step = 0; step < 24; ++step) {
    using Next = glint::TokenConstraint::Next;
    const Next next = constraint->fill_mask(bits, glint::kQuickMaskWork);
    GLINT_CHECK(next != Next::kAnything, "no mask");
    if (next == Next::kGivenUp) return 0;
    const bool dead_end = std::all_of(std::begin(bits), std::end(bits), [](auto w) { return !w; });
    if (dead_end) return 0;
    glint::TokenId token = static_cast<glint::TokenId>(data[step % size] * 31 % kVocabSize);
    for (int tried = 0; !(bits[token / 32] >> (token % 32) & 1); ++tried) {
      GLINT_CHECK(tried < kVocabSize, "no token may follow");
      token = (token + 1) % kVocabSize;
    }
    GLINT_CHECK(constraint->accept(token), "an allowed token is refused");
    if (token == 260) break;
    if (step % 5 == 4) constraint->rollback(2);
  }
  return 0;
}
