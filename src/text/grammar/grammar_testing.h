// Random texts through the masks of a grammar, and a validator of JSON schemas to hold them
// against: it knows only what the schemas of the tests use, but by the letter of the standard.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "base/contains.h"
#include "base/random.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace glint {

inline constexpr const char* kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},
        "tags":{"type":"array","items":{"type":"string"},"maxItems":3},"ok":{"type":"boolean"}},
        "required":["name","age"]})",
    R"({"type":"integer","minimum":-3,"maximum":250})",
    R"({"type":"number","exclusiveMinimum":0.5,"maximum":10})",
    R"({"enum":["a",1,null,{"b":[2]},"\u00e9\"\\"]})",
    R"({"const":{"a":1.5}})",
    R"({"type":["string","null"],"minLength":1,"maxLength":4})",
    R"({"type":"string","pattern":"^[a-f]+[0-9]{2}$"})",
    R"({"type":"string","pattern":"b[0-9]"})",
    R"({"type":"string","pattern":"^x|y$"})",
    R"({"anyOf":[{"type":"null"},{"type":"array","prefixItems":[{"type":"boolean"},{"const":1}],
        "items":false}]})",
    R"({"oneOf":[{"type":"null"},{"type":"boolean"}]})",
    R"({"type":"array","items":{"$ref":"#/$defs/node"},"minItems":1,"maxItems":2,
        "$defs":{"node":{"type":"object","properties":{"v":{"type":"boolean"},
        "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"],
        "additionalProperties":false}}})",
    R"({"type":"object","additionalProperties":{"type":"integer"}})",
    R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":true,
        "required":["a","b"]})",
    R"({"type":"object","patternProperties":{"^[xy]$":{"type":"integer"}}})",
    R"({"type":"object","propertyNames":{"pattern":"^[ab]+$"}})",
    R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},
        "minProperties":1,"maxProperties":2})",
    R"({"type":"integer","multipleOf":5})",
    R"({"allOf":[{"type":"boolean"}]})",
    R"({"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"null"}},"required":["b"]}],
        "$defs":{"base":{"type":"object","properties":{"a":{"type":"boolean"}},
        "required":["a"]}}})",
    R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},
        "anyOf":[{"required":["a"]},{"required":["b"]}]})",
    R"({"type":"array","uniqueItems":true,"items":{"enum":["x",1,null,true,"y","z"]}})",
    R"({"type":"string","pattern":"^[^a]{150}$"})",
    R"({"type":"string","pattern":"^x([01]+M)?(-\\d+)?$"})",
    R"({"type":"string","pattern":"^[a-c]\\w*d$","minLength":4,"maxLength":9})",
    R"x({"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})x",
    R"x({"type":"string","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})x",
    R"x({"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})x",
    "{\"type\":\"string\",\"pattern\":\"^\u00e9+[\u00e4-\u00e6]{2}$\"}",
    R"({"type":"string","format":"date"})",
    R"({"type":"string","format":"email"})",
    R"({"type":"string","format":"uri"})",
    R"({"type":"string","format":"date-time"})",
    R"({"type":"string","format":"ipv6"})",
    R"({"type":"string","format":"hostname"})",
    R"({"type":"string","format":"duration"})",
    R"({"type":"string","format":"uri-template"})",
    R"({"type":"string","format":"uri-reference"})",
    R"({"type":"string","format":"json-pointer"})",
    R"({"type":"string","format":"whatever"})",
    R"({"type":"string","minLength":3})",
    R"({"type":"string","pattern":"\\S+\\D\\W."})",
    R"({"minimum":3})",
    R"({"required":["k"]})",
};

inline std::size_t num_characters(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

// A character for each code point.
inline std::wstring wide(const std::string& text) {
  std::wstring out;
  for (std::size_t at = 0; at < text.size();)
    out += static_cast<wchar_t>(next_code_point(text, at));
  return out;
}

inline bool has_type(const Json& value, const std::string& type) {
  if (type == "integer")
    return value.is_int() || (value.is_big_number() && value.as_big_number().is_integer()) ||
           (value.is_double() && value.as_double() == std::trunc(value.as_double()));
  return (type == "null" && value.is_null()) || (type == "boolean" && value.is_bool()) ||
         (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
         (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

// The keyword of `schema` that the value breaks; empty if it is valid.
inline std::string why_invalid(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_bool()) return schema.as_bool() ? "" : "false";
  const auto valid = [&](const Json& v, const Json& s) { return why_invalid(v, s, root).empty(); };
  const auto search = [](const std::string& text, const Json& pattern) {
    return std::regex_search(wide(text), std::wregex(wide(pattern.as_string())));
  };
  for (const auto& [name, said] : schema.as_object()) {
    bool ok = true;
    if (name == "$ref") {
      const Json* target = &root;
      const std::string pointer = said.as_string().substr(1);
      for (const std::string_view part : split(pointer, '/')) {
        if (!part.empty()) target = target->find(part);
      }
      ok = valid(value, *target);
    } else if (name == "type") {
      ok = false;
      if (said.is_string()) ok = has_type(value, said.as_string());
      if (said.is_array()) {
        for (const Json& type : said.as_array()) ok = ok || has_type(value, type.as_string());
      }
    } else if (name == "enum") {
      ok = contains(said.as_array(), value);
    } else if (name == "const") {
      ok = value == said;
    } else if (name == "anyOf" || name == "oneOf" || name == "allOf") {
      const auto& options = said.as_array();
      const auto count = std::count_if(options.begin(), options.end(),
                                       [&](const Json& option) { return valid(value, option); });
      ok = name == "anyOf" ? count > 0 : count == (name == "oneOf" ? 1 : std::ssize(options));
    } else if (value.is_number()) {
      const double v = value.as_double();
      if (name == "minimum") ok = v >= said.as_double();
      if (name == "maximum") ok = v <= said.as_double();
      if (name == "exclusiveMinimum") ok = v > said.as_double();
      if (name == "exclusiveMaximum") ok = v < said.as_double();
      // The last digits of a large integer decide: the tests use divisors of 1000.
      const std::string digits = dump_json(value);
      const std::string last = digits.substr(digits.size() < 3 ? 0 : digits.size() - 3);
      if (name == "multipleOf") ok = std::abs(std::stoi(last)) % said.as_int() == 0;
    } else if (value.is_string()) {
      const auto count = static_cast<std::int64_t>(num_characters(value.as_string()));
      if (name == "minLength") ok = count >= said.as_int();
      if (name == "maxLength") ok = count <= said.as_int();
      if (name == "pattern") ok = search(value.as_string(), said);
      if (name == "format" && said == Json("date"))
        ok = std::regex_match(value.as_string(), std::regex("\\d{4}-\\d\\d-\\d\\d"));
    } else if (value.is_array()) {
      const Json::Array& items = value.as_array();
      const Json* prefix = schema.find("prefixItems");
      const std::size_t first = prefix ? prefix->as_array().size() : 0;
      if (name == "minItems") ok = std::ssize(items) >= said.as_int();
      if (name == "maxItems") ok = std::ssize(items) <= said.as_int();
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (name == "uniqueItems") ok = ok && std::ranges::count(items, items[i]) == 1;
        if (name == "items" && i >= first) ok = ok && valid(items[i], said);
        if (name == "prefixItems" && i < first) ok = ok && valid(items[i], said.as_array()[i]);
      }
    } else if (value.is_object()) {
      const Json::Object& members = value.as_object();
      if (name == "minProperties") ok = std::ssize(members) >= said.as_int();
      if (name == "maxProperties") ok = std::ssize(members) <= said.as_int();
      if (name == "required") {
        for (const Json& key : said.as_array()) ok = ok && value.find(key.as_string());
      }
      for (const auto& [key, member] : members) {
        const Json* properties = schema.find("properties");
        const Json* patterns = schema.find("patternProperties");
        bool described = properties && properties->find(key);
        if (name == "properties" && described) ok = ok && valid(member, *said.find(key));
        if (name == "propertyNames") ok = ok && valid(Json(key), said);
        if (patterns) {
          for (const auto& [pattern, child] : patterns->as_object()) {
            if (!search(key, Json(pattern))) continue;
            described = true;
            if (name == "patternProperties") ok = ok && valid(member, child);
          }
        }
        if (name == "additionalProperties" && !described) ok = ok && valid(member, said);
      }
    }
    if (!ok) return name;
  }
  return "";
}

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
