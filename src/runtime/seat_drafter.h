// SeatDrafter: the MTP layer as it guesses tokens, like Drafter, of sequences by seat on a device
// that need not wait for the host: where drafting goes on, what it says, and how many rows of a
// step were certain are known on the device alone (runtime/seat_table.h). On one rank.
#pragma once

#include "runtime/loaded_model.h"
#include "runtime/seat_table.h"
#include "runtime/slice_run.h"

namespace glint {

class SeatDrafter {
 public:
  // `num_token_ids`: ids from there on are padding.
  SeatDrafter(LoadedModel& model, SeatTable& seats, std::int64_t num_token_ids)
      : model_(model), seats_(seats), num_token_ids_(num_token_ids) {}

  // Whether drafting goes on at the run's token.
  bool ready(const SliceRun& run) const {
    return run.known == 1 && run.slice->sample &&
           seats_.holds_draft(run.slice->seat, run.sequence->draft);
  }

  // Guesses for each of `runs`, which are ready, as many as it has drafts; these then say which of
  // the guesses they are, as a batch's tokens do (ops/sequences.h).
  void guess(std::span<SliceRun* const> runs);
  // Makes those drafts tokens. Waits for the device.
  void read(std::span<SliceRun* const> runs) const;

  // Runs the layer's rows of the step that ran last, from which `tokens` [R] were drawn and
  // accepted.
  void run_rows(std::span<SliceRun> runs, const Tensor& tokens);

 private:
  bool shares_keys() const { return model_.config().index_share_for_mtp_iteration; }
  // Rows of a table by seat, in the scratch arena's present scope.
  Tensor gather(const Tensor& table, std::span<SliceRun* const> runs);
  void take_best(const Tensor& logits, std::int64_t begin);

  LoadedModel& model_;
  SeatTable& seats_;
  const std::int64_t num_token_ids_;
};

}  // namespace glint
