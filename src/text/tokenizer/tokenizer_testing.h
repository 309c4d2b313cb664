// Small tokenizer.json files for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/tokenizer_bytes.h"

namespace glint {

// The 256 letters of bytes (id = byte), then the merges of `merges` in order: {"t", "he"} of bytes.
// ByteLevel without a pattern.
inline Json byte_level_file(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json::Object vocab;
  Json::Array pairs;
  for (int byte = 0; byte < 256; ++byte) {
    vocab.emplace_back(bytes_to_letters(std::string(1, static_cast<char>(byte))), Json(byte));
  }
  for (const auto& [left, right] : merges) {
    const auto id = static_cast<std::int64_t>(vocab.size());
    vocab.emplace_back(bytes_to_letters(left + right), Json(id));
    pairs.push_back(Json::Array{bytes_to_letters(left), bytes_to_letters(right)});
  }
  const Json byte_level = parse_json(R"({"type": "ByteLevel", "add_prefix_space": false,
                                         "trim_offsets": true, "use_regex": false})")
                              .value();
  return Json::Object{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::Array{}},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       Json::Object{{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(pairs)}}}};
}

// An entry of added_tokens.
inline Json added_token(int id, const std::string& content, bool special = true) {
  return Json::Object{{"id", id},          {"content", content}, {"single_word", false},
                      {"lstrip", false},   {"rstrip", false},    {"normalized", false},
                      {"special", special}};
}

inline Json json_of(const char* text) { return parse_json(text).value(); }

}  // namespace glint
