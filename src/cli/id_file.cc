#include "cli/id_file.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/npy.h"
#include "base/str.h"

namespace glint {
namespace {

Result<TokenId> to_token(std::int64_t value, const std::string& where) {
  if (value < 0 || value > INT32_MAX) return invalid(str(where, ": ", value, " is no token id"));
  return static_cast<TokenId>(value);
}

Result<TokenSequences> parse_text_ids(const std::string& text, const std::string& path) {
  TokenSequences sequences;
  int line_number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++line_number;
    std::vector<TokenId> ids;
    const std::string where = str(path, ", line ", line_number);
    constexpr std::string_view kBlanks = " \t\r,";
    for (std::size_t at = 0, end = 0; at < line.size(); at = end) {
      at = std::min(line.find_first_not_of(kBlanks, at), line.size());
      end = std::min(line.find_first_of(kBlanks, at), line.size());
      const std::string_view word = line.substr(at, end - at);
      if (word.empty()) break;
      std::int64_t value = 0;
      const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || rest != word.data() + word.size()) {
        return invalid(str(where, ": ", quoted(word, 20), " is no token id"));
      }
      GLINT_TRY(const TokenId id, to_token(value, where));
      ids.push_back(id);
    }
    if (!ids.empty()) sequences.push_back(std::move(ids));
  }
  return sequences;
}

Result<TokenSequences> parse_npy_ids(const std::string& path) {
  GLINT_TRY(const auto rows, read_npy_rows(path));
  TokenSequences sequences;
  for (const std::vector<std::int64_t>& row : rows) {
    std::vector<TokenId>& ids = sequences.emplace_back();
    for (const std::int64_t value : row) {
      GLINT_TRY(const TokenId id, to_token(value, path));
      ids.push_back(id);
    }
  }
  return sequences;
}

Result<TokenSequences> parse_ids(const std::string& path) {
  if (path.ends_with(".npy")) return parse_npy_ids(path);
  GLINT_TRY(const std::string text, read_file(path));
  if (is_npy(text)) return parse_npy_ids(path);  // by another name
  return parse_text_ids(text, path);
}

}  // namespace

Result<TokenSequences> read_ids(const std::string& path) {
  GLINT_TRY(TokenSequences sequences, parse_ids(path));
  if (sequences.empty()) return invalid(str(path, " holds no token ids"));
  return sequences;
}

}  // namespace glint
