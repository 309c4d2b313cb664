#include "text/tokenizer/tokenizer_added.h"

#include <algorithm>
#include <unordered_map>

#include "base/str.h"
#include "text/tokenizer/tokenizer_fields.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

// Finding one can walk this far from every byte of a text.
constexpr std::size_t kMaxContent = 256;

}  // namespace

Result<AddedTokenFinder> AddedTokenFinder::make(const std::vector<AddedToken>& tokens,
                                                bool normalized) {
  AddedTokenFinder finder;
  for (const AddedToken& token : tokens) {
    if (token.normalized == normalized) finder.tokens_.push_back(token);
  }
  std::vector<std::pair<std::string_view, std::int32_t>> sorted;
  for (std::size_t i = 0; i < finder.tokens_.size(); ++i) {
    sorted.emplace_back(finder.tokens_[i].normalized_content, static_cast<std::int32_t>(i));
  }
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].first.empty()) {
      const AddedToken& token = finder.tokens_[static_cast<std::size_t>(sorted[i].second)];
      return invalid(
          str("added_tokens: nothing is left of ", quoted(token.content), " after normalizing"));
    }
    if (i > 0 && sorted[i].first == sorted[i - 1].first) {
      return invalid(
          str("added_tokens: two tokens are found by the text ", quoted(sorted[i].first)));
    }
  }
  finder.build(sorted);
  return finder;
}

void AddedTokenFinder::build(const std::vector<std::pair<std::string_view, std::int32_t>>& sorted) {
  // Texts that share a node are neighbours in `sorted`; nodes are made level by level.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, sorted.size(), 0}};
  nodes_.resize(1);
  for (std::size_t n = 0; n < ranges.size(); ++n) {
    auto [begin, end, depth] = ranges[n];
    if (begin < end && sorted[begin].first.size() == depth)
      nodes_[n].token = sorted[begin++].second;
    nodes_[n].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const auto byte = static_cast<unsigned char>(sorted[begin].first[depth]);
      std::size_t next = begin;
      while (next < end && static_cast<unsigned char>(sorted[next].first[depth]) == byte) ++next;
      edges_.push_back({byte, static_cast<std::uint32_t>(nodes_.size())});
      if (n == 0) root_[byte] = edges_.back().node;
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[n].num_edges = static_cast<std::uint32_t>(edges_.size()) - nodes_[n].first_edge;
  }
}

std::uint32_t AddedTokenFinder::next_node(std::uint32_t node, unsigned char byte) const {
  const Edge* edge = edges_.data() + nodes_[node].first_edge;
  const Edge* end = edge + nodes_[node].num_edges;
  while (edge != end && edge->byte != byte) ++edge;
  return edge == end ? 0 : edge->node;
}

bool AddedTokenFinder::find(std::string_view text, std::size_t from, Found& found) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::uint32_t node = root_[static_cast<unsigned char>(text[begin])];
    if (node == 0) continue;
    std::int32_t longest = -1;
    for (std::size_t at = begin + 1; node != 0;
         node = at < text.size() ? next_node(node, static_cast<unsigned char>(text[at++])) : 0) {
      if (nodes_[node].token < 0) continue;
      longest = nodes_[node].token;
      found = {begin, at, static_cast<std::size_t>(longest)};
    }
    if (longest >= 0) return true;
  }
  return false;
}

Result<std::vector<AddedToken>> parse_added_tokens(const Json& json, const Bpe& bpe, bool nfc) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) return invalid(str("added_tokens: expected a list, found ", json.kind()));
  std::unordered_map<std::string, std::size_t> place;     // of a content in `tokens`
  std::unordered_map<std::int64_t, std::string> claimed;  // the file's ids
  TokenId next_id = static_cast<TokenId>(bpe.size());
  for (std::size_t i = 0; i < json.as_array().size(); ++i) {
    Fields fields(json.as_array()[i], str("added_tokens[", i, "]"));
    AddedToken token;
    token.content = fields.text("content");
    const std::int64_t file_id = fields.integer("id", 0, Bpe::kMaxId);
    for (const char* option : {"single_word", "lstrip", "rstrip"}) {
      if (fields.flag(option))
        fields.fail(str("\"", option, "\" of ", quoted(token.content),
                        " is true; only false is supported"));
    }
    token.normalized = fields.flag("normalized");
    token.special = fields.flag("special");
    GLINT_TRY_STATUS(fields.done());
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxContent) {
      return invalid(str(fields.where(), ": the content is ", token.content.size(),
                         " bytes long; at most ", kMaxContent, " are supported"));
    }
    const auto [claim, is_new] = claimed.emplace(file_id, token.content);
    if (!is_new && claim->second != token.content) {
      return invalid(str(fields.where(), ": the id ", file_id, " of ", quoted(token.content),
                         " belongs to ", quoted(claim->second), " too"));
    }
    token.normalized_content = token.normalized && nfc ? to_nfc(token.content) : token.content;
    const auto [at, inserted] = place.emplace(token.content, tokens.size());
    if (!inserted) {  // the last of two counts, but special stays special
      token.id = tokens[at->second].id;
      token.special |= tokens[at->second].special;
      tokens[at->second] = std::move(token);
      continue;
    }
    token.id = bpe.find(token.content);
    if (token.id < 0) token.id = next_id++;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace glint
