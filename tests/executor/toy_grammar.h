// ToyGrammar: a constraint whose language is plain to see, and which knows how it was used.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "engine/request.h"

namespace glint {

// Ids i with i % 3 == position % 3, and after `length` tokens only `end`. Counts what was asked.
class ToyGrammar final : public TokenConstraint {
 public:
  ToyGrammar(int length, TokenId end) : length_(length), end_(end) {}

  Next fill_mask(std::span<std::uint32_t> bits, std::int64_t max_work) override {
    threads_.push_back(std::this_thread::get_id());
    ++asked_;
    if (work_(position_) > max_work) return Next::kGivenUp;
    if (slowly_) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    if (position_ > length_) return Next::kEnd;
    if (position_ % 5 == 4 && position_ < length_) return Next::kAnything;
    std::fill(bits.begin(), bits.end(), 0u);
    for (std::size_t i = 0; i < bits.size() * 32; ++i) {
      if (may_come(static_cast<TokenId>(i))) bits[i / 32] |= 1u << (i % 32);
    }
    return Next::kMasked;
  }
  bool accept(TokenId token) override {
    if (!may_come(token)) return false;
    ++position_;
    return true;
  }
  void rollback(int count) override {
    rolled_back_ += count;
    position_ -= count;
  }
  bool is_complete() const { return position_ > length_; }

  bool may_come(TokenId token) const {
    if (position_ >= length_) return token == end_ && position_ == length_;
    return position_ % 5 == 4 || token % 3 == position_ % 3;
  }

  // The work of a mask, by position.
  std::function<std::int64_t(int)> work_ = [](int) { return 1; };
  bool slowly_ = false;
  int position_ = 0, asked_ = 0, rolled_back_ = 0;
  std::vector<std::thread::id> threads_;

 private:
  int length_;
  TokenId end_;
};

}  // namespace glint
