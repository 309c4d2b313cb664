#include "text/grammar/thinking_budget.h"

#include <algorithm>

#include "base/contains.h"

namespace glint {
namespace {

class ThinkingBudget final : public TokenConstraint {
 public:
  ThinkingBudget(int max_tokens, TokenId end_think, std::vector<TokenId> other_ends,
                 std::shared_ptr<TokenConstraint> inner)
      : max_tokens_(max_tokens),
        end_think_(end_think),
        other_ends_(std::move(other_ends)),
        inner_(std::move(inner)) {}

  Next fill_mask(std::span<std::uint32_t> bits, std::int64_t max_work) override {
    if (!is_spent()) return inner_ ? inner_->fill_mask(bits, max_work) : Next::kAnything;
    std::fill(bits.begin(), bits.end(), 0);
    bits[static_cast<std::size_t>(end_think_) / 32] |= std::uint32_t{1} << (end_think_ % 32);
    return Next::kMasked;
  }

  bool accept(TokenId token) override {
    const bool ends_thought = token == end_think_ || contains(other_ends_, token);
    if (is_spent() && token != end_think_) return false;
    if (inner_ && !inner_->accept(token)) return false;
    if (end_ < 0 && ends_thought) end_ = num_tokens_;
    ++num_tokens_;
    return true;
  }

  void rollback(int count) override {
    if (inner_) inner_->rollback(count);
    num_tokens_ -= count;
    if (num_tokens_ <= end_) end_ = -1;
  }

 private:
  bool is_spent() const { return end_ < 0 && num_tokens_ >= max_tokens_; }

  const int max_tokens_;
  const TokenId end_think_;
  const std::vector<TokenId> other_ends_;
  const std::shared_ptr<TokenConstraint> inner_;
  int num_tokens_ = 0;  // that were accepted
  int end_ = -1;        // of these the one that ended the thought
};

}  // namespace

std::shared_ptr<TokenConstraint> limit_thinking(int max_tokens, TokenId end_think,
                                                std::vector<TokenId> other_ends,
                                                std::shared_ptr<TokenConstraint> inner) {
  return std::make_shared<ThinkingBudget>(max_tokens, end_think, std::move(other_ends),
                                          std::move(inner));
}

}  // namespace glint
