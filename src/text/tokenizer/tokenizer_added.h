// The "added_tokens" of a tokenizer.json: texts that are one token wherever they stand, found
// before anything else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/types.h"
#include "text/tokenizer/tokenizer_bpe.h"

namespace glint {

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool normalized = false;         // is found in the normalized text, in its own normalized form
  bool special = false;            // left out by decoding with skip_special
  std::string normalized_content;  // the content where it is found
};

// Finds some of the tokens in a text: at each place the leftmost, then the longest.
class AddedTokenFinder {
 public:
  static Result<AddedTokenFinder> make(const std::vector<AddedToken>& tokens, bool normalized);

  bool empty() const { return tokens_.empty(); }

  // Cuts `text` into what is between tokens, `visit(piece, -1)`, and tokens, `visit(piece, id)`. No
  // piece is empty unless it is a token's.
  template <class Visit>
  void cut(std::string_view text, Visit visit) const {
    std::size_t done = 0;
    for (Found found; find(text, done, found); done = found.end) {
      if (done < found.begin) visit(text.substr(done, found.begin - done), TokenId{-1});
      visit(std::string_view(), tokens_[found.token].id);
    }
    if (done < text.size()) visit(text.substr(done), TokenId{-1});
  }

 private:
  struct Found {
    std::size_t begin, end;
    std::size_t token;  // in tokens_
  };
  struct Node {
    std::int32_t token = -1;  // that ends here
    std::uint32_t first_edge = 0, num_edges = 0;
  };
  struct Edge {
    unsigned char byte;
    std::uint32_t node;
  };

  bool find(std::string_view text, std::size_t from, Found& found) const;
  std::uint32_t next_node(std::uint32_t node, unsigned char byte) const;
  void build(const std::vector<std::pair<std::string_view, std::int32_t>>& sorted);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // node 0 is the root
  std::vector<Edge> edges_;
  std::uint32_t root_[256] = {};  // the root's edges; 0 where there is none
};

// The tokens in the order of the file, with the ids that `tokenizers` gives them: a content that
// the vocabulary has keeps its id there, others are numbered on. `nfc`: the text is normalized so.
Result<std::vector<AddedToken>> parse_added_tokens(const Json& json, const Bpe& bpe, bool nfc);

}  // namespace glint
