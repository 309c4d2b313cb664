#include "cli/id_file.h"

#include "base/file.h"
#include "base/npy.h"
#include "base/parse_number.h"
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
    const std::string where = str(path, ", line ", ++line_number);
    const Result<std::vector<std::int64_t>> values = parse_ids(line);
    if (!values.ok()) return Error(values.error()).in(where);
    std::vector<TokenId> ids;
    for (const std::int64_t value : values.value()) {
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

Result<TokenSequences> parse_file(const std::string& path) {
  if (path.ends_with(".npy")) return parse_npy_ids(path);
  GLINT_TRY(const std::string text, read_file(path));
  if (is_npy(text)) return parse_npy_ids(path);  // by another name
  return parse_text_ids(text, path);
}

}  // namespace

Result<std::vector<std::int64_t>> parse_ids(std::string_view line) {
  std::vector<std::int64_t> ids;
  for (const std::string_view word : words_of(line, " \t\r,")) {
    const std::optional<std::int64_t> id = parse_number<std::int64_t>(word);
    if (!id) return invalid(str(quoted(word, 20), " is no token id"));
    ids.push_back(*id);
  }
  return ids;
}

Result<TokenSequences> read_ids(const std::string& path) {
  GLINT_TRY(TokenSequences sequences, parse_file(path));
  if (sequences.empty()) return invalid(str(path, " holds no token ids"));
  return sequences;
}

}  // namespace glint
