// Drafter: the MTP layer as it guesses tokens, over all sequences at once, and its caches, which it
// keeps for every row that the model computes.
//
// Row p of the layer takes token p + 1 and the model's hidden state of p, and predicts token p + 2.
// So after each step it runs the rows that are certain, with the model's own hidden states: what
// guessing wrote there before, from the layer's own, is overwritten.
#pragma once

#include "runtime/loaded_model.h"
#include "runtime/sequence_state.h"

namespace glint {

class Drafter {
 public:
  // `num_token_ids`: ids from there on are padding.
  Drafter(LoadedModel& model, std::size_t num_token_ids)
      : model_(model), num_token_ids_(num_token_ids) {}

  // Rows of one sequence from position `first`, with the token after each.
  struct Rows {
    int replica = 0;
    int first = 0;
    std::span<const TokenId> next_tokens = {};
    std::span<const PageId> pages = {};
    int hidden_row = 0;         // of the first row in what its replica's last step left
    DraftSeed* seed = nullptr;  // set by the last row; null: nothing will be drafted from it
  };
  // In the order of replicas.
  void run_rows(std::span<const Rows> rows);

  // Guesses `count` tokens from a seed. In the order of replicas, too.
  struct Guess {
    int replica = 0;
    const DraftSeed* seed = nullptr;
    std::span<const PageId> pages = {};
    int count = 0;
    std::vector<TokenId>* drafts = nullptr;  // written
  };
  void guess(std::span<const Guess> guesses);

 private:
  bool shares_keys() const { return model_.config().index_share_for_mtp_iteration; }
  void take_best(const Tensor& logits, std::span<const Guess> guesses);
  void keep_seed(const StepOutput& out, std::int64_t slice, const Rows& rows);
  std::vector<StepRows> empty_replicas() const {
    return std::vector<StepRows>(
        static_cast<std::size_t>(model_.partition().shape.num_sequence_groups()));
  }

  LoadedModel& model_;
  std::size_t num_token_ids_;
};

// Slots as positions in the sequence that owns `pages`; -1 stays.
void slots_to_positions(std::span<std::int32_t> slots, std::span<const PageId> pages);

}  // namespace glint
