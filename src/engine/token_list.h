// TokenList: a prompt, which its request holds, and the answer after it, as one list. The prompt is
// there once, whoever has a list of it.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "base/types.h"

namespace glint {

class TokenList {
 public:
  TokenList() = default;
  TokenList(Shared<std::vector<TokenId>> prompt) : prompt_(std::move(prompt)) {}
  TokenList(std::vector<TokenId> prompt) : prompt_(std::move(prompt)) {}

  std::size_t size() const { return prompt_.size() + answer_.size(); }
  TokenId operator[](std::size_t i) const {
    return i < prompt_.size() ? prompt_[i] : answer_[i - prompt_.size()];
  }
  std::span<const TokenId> prompt() const { return *prompt_; }
  std::span<const TokenId> answer() const { return answer_; }

  void append(TokenId token) { answer_.push_back(token); }
  void append(std::span<const TokenId> tokens) {
    answer_.insert(answer_.end(), tokens.begin(), tokens.end());
  }

  // Positions [first, first + count): where they lie, if that is one place, else in `buffer`.
  std::span<const TokenId> read(std::size_t first, std::size_t count,
                                std::vector<TokenId>& buffer) const {
    const std::size_t in_prompt = prompt_.size();
    if (first + count <= in_prompt) return prompt().subspan(first, count);
    if (first >= in_prompt) return answer().subspan(first - in_prompt, count);
    buffer.assign(prompt_.begin() + static_cast<std::ptrdiff_t>(first), prompt_.end());
    buffer.insert(buffer.end(), answer_.begin(),
                  answer_.begin() + static_cast<std::ptrdiff_t>(first + count - in_prompt));
    return buffer;
  }

  // How many tokens two lists begin with in common.
  friend std::size_t common_prefix(const TokenList& a, const TokenList& b) {
    const std::size_t both = std::min(a.prompt_.size(), b.prompt_.size());
    const auto differ =
        std::mismatch(a.prompt_.begin(), a.prompt_.begin() + both, b.prompt_.begin());
    std::size_t i = static_cast<std::size_t>(differ.first - a.prompt_.begin());
    if (i < both) return i;
    while (i < std::min(a.size(), b.size()) && a[i] == b[i]) ++i;
    return i;
  }

 private:
  Shared<std::vector<TokenId>> prompt_;
  std::vector<TokenId> answer_;
};

}  // namespace glint
