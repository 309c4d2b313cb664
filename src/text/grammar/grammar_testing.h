// For tests: random texts through the masks of a grammar, and grammars over the bundled model's
// vocabulary.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/str.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace glint {

struct Walk {
  std::string text;
  std::vector<TokenId> tokens;  // without the stop token
  bool complete = false;
};

// A compiler and the means to wander through what it allows.
struct TestGrammars {
  TestGrammars(const Tokenizer& tokenizer, int vocab_size)
      : tokenizer(tokenizer),
        vocab_size(vocab_size),
        stop_id(tokenizer.token_to_id("<|user|>").value()),
        compiler(read_vocabulary(tokenizer, vocab_size, {stop_id})) {
    for (const char* text : {"\"", "}", "]", "1", ",", "</arg_value>", "</tool_call>", ")"}) {
      if (const auto id = tokenizer.token_to_id(text)) closing.push_back(*id);
    }
    closing.push_back(stop_id);
  }

  std::size_t num_words() const { return static_cast<std::size_t>(vocab_size + 31) / 32; }

  std::shared_ptr<TokenConstraint> constrain(const GrammarSpec& spec,
                                             bool after_reasoning = false) const {
    return compiler.constrain(compiled(spec), after_reasoning);
  }

  // Each is compiled once.
  std::shared_ptr<const CompiledGrammar> compiled(const GrammarSpec& spec) const {
    const std::lock_guard lock(mutex);
    auto& grammar = known[dump_spec(spec)];
    if (!grammar) grammar = compiler.compile(spec).value();
    return grammar;
  }

  static TokenConstraint::Next fill(TokenConstraint& constraint, std::span<std::uint32_t> bits) {
    return constraint.fill_mask(bits, kMaxMaskWork);
  }

  // Nothing but the end may come.
  bool ends(TokenConstraint& constraint) const {
    std::vector<std::uint32_t> bits(num_words());
    return fill(constraint, bits) == TokenConstraint::Next::kEnd;
  }

  bool allows(TokenConstraint& constraint, TokenId token) const {
    std::vector<std::uint32_t> bits(num_words());
    if (fill(constraint, bits) == TokenConstraint::Next::kAnything) return true;
    return bits[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1;
  }

  // A token that may come; with probability `hurry` one that may end something.
  TokenId random_token(TokenConstraint& constraint, Random& random, double hurry) const {
    std::vector<std::uint32_t> bits(num_words());
    if (fill(constraint, bits) == TokenConstraint::Next::kAnything)
      return static_cast<TokenId>(random.below(256));
    const auto has = [&](TokenId id) {
      return bits[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1;
    };
    std::vector<TokenId> candidates;
    if (random.uniform() < hurry) {
      std::copy_if(closing.begin(), closing.end(), std::back_inserter(candidates), has);
    }
    if (candidates.empty()) {
      for (TokenId id = 0; id < vocab_size; ++id) {
        if (has(id)) candidates.push_back(id);
      }
    }
    GLINT_CHECK(!candidates.empty(), "a dead end");
    return candidates[random.below(static_cast<std::uint32_t>(candidates.size()))];
  }

  Walk walk(const GrammarSpec& spec, Random& random) const {
    const auto constraint = constrain(spec);
    Walk walk;
    for (int step = 0; step < 400; ++step) {
      const TokenId token = random_token(*constraint, random, 0.2 + step * 0.01);
      GLINT_CHECK(constraint->accept(token), "the mask allows what is not accepted");
      if (token == stop_id) {
        walk.complete = true;
        break;
      }
      walk.tokens.push_back(token);
    }
    walk.text = tokenizer.decode(walk.tokens);
    return walk;
  }

  const Tokenizer tokenizer;
  const int vocab_size;
  const TokenId stop_id;
  std::vector<TokenId> closing;
  GrammarCompiler compiler;
  mutable std::mutex mutex;
  mutable std::map<std::string, std::shared_ptr<const CompiledGrammar>> known;
};

inline const TestGrammars& tiny_grammars() {
  static const TestGrammars grammars(
      Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value(),
      3712);  // of the model: some more than the tokenizer has
  return grammars;
}

// The reason why it cannot be compiled; empty if it can.
inline std::string error_of(const GrammarSpec& spec) {
  const auto grammar = tiny_grammars().compiler.compile(spec);
  return grammar.ok() ? "" : grammar.error().message;
}

// Whether an answer may begin with `text`.
inline bool allowed(const GrammarSpec& spec, std::string_view text) {
  const auto constraint = tiny_grammars().constrain(spec);
  const std::vector<TokenId> tokens = tiny_grammars().tokenizer.encode(text).value();
  return std::ranges::all_of(tokens, [&](TokenId token) { return constraint->accept(token); });
}

inline const std::vector<ToolSpec>& weather_tools() {
  static const std::vector<ToolSpec> tools = {
      {"f", Json()},
      {"get_weather", parse_json(R"({"type":"object","properties":{
          "city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},
          "unit":{"enum":["celsius","fahrenheit"]},"tags":{"type":"array","items":{"type":"string"}},
          "at":{"$ref":"#/$defs/point"},"note":{"type":["string","null"]},
          "id":{"type":"string","pattern":"^[A-Z]{2}[0-9]+$"},"short":{"type":"string","maxLength":5},
          "some":{"type":"string","minLength":2},"exact":{"type":"boolean"}},
          "required":["city","unit"],
          "$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}},
                            "required":["x"]}}})")
                          .value()},
      {"get",
       parse_json(R"({"type":"object","properties":{},"additionalProperties":false})").value()},
  };
  return tools;
}

// A byte-level tokenizer of `size` tokens, made of random pieces of one another.
inline Tokenizer large_tokenizer(int size) {
  Random random(99);
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  std::vector<std::pair<std::string, std::string>> merges;
  TextTable known;
  for (const std::string& text : texts) known.insert(text, 0);
  while (std::ssize(texts) + 1 < size) {
    // Mostly letters, as in a real one.
    const auto pick = [&]() -> const std::string& {
      const auto letter = 'a' + random.below(26);
      const bool any = random.below(3) > 0;
      return texts[any ? random.below(static_cast<std::uint32_t>(texts.size())) : letter];
    };
    const std::string &left = pick(), &right = pick();
    const std::string both = left + right;
    if (both.size() > 12 || !known.insert(both, 0)) continue;
    merges.emplace_back(left, right);
    texts.push_back(both);
  }
  Json file = byte_level_file(merges);
  file.set("added_tokens", Json::Array{added_token(size - 1, "<|user|>")});
  return Tokenizer::parse(dump_json(file)).value();
}

}  // namespace glint
