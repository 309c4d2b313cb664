#include "runtime/score_ranks.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <optional>

namespace glint {
namespace {

// All ranks say yes or no; each hears whether all said yes.
class Agreement {
 public:
  explicit Agreement(int ranks) : meeting_(ranks, Decide{*this}) {}

  bool agree(bool yes) {
    if (!yes) all_ = false;
    meeting_.arrive_and_wait();
    return verdict_;
  }

 private:
  struct Decide {
    Agreement& agreement;
    void operator()() noexcept { agreement.verdict_ = agreement.all_.exchange(true); }
  };
  std::atomic<bool> all_ = true;
  bool verdict_ = true;  // written while all wait
  std::barrier<Decide> meeting_;
};

}  // namespace

Result<std::vector<Score>> score(Ranks& ranks, std::span<const std::vector<TokenId>> sequences,
                                 const ScoreOptions& options,
                                 const std::function<ScoreSinks(std::size_t)>& sinks) {
  std::int64_t longest = 0;
  for (const std::vector<TokenId>& ids : sequences) {
    GLINT_TRY_STATUS(check_sequence(ranks.model(0).config(), ids));
    longest = std::max(longest, std::ssize(ids));
  }
  const MeshShape& shape = ranks.shape();
  const auto together = static_cast<std::size_t>(shape.dp / shape.cp);  // sequences
  Agreement agreement(ranks.size());
  // The scores of each sequence's rows, whichever rank ran them: added in order, so that the sums
  // are those of one rank.
  std::vector<std::vector<Score>> rows;
  for (const std::vector<TokenId>& ids : sequences) rows.emplace_back(ids.size());
  std::mutex mutex;
  std::optional<Error> failure;  // the first
  const auto keep = [&](const Status& status) {
    const std::lock_guard lock(mutex);
    if (!status.ok() && (!failure || failure->code == ErrorCode::kUnavailable))
      failure = status.error();
  };
  ranks.run([&](int rank) {
    LoadedModel& model = ranks.model(rank);
    const Status ready = reserve_scores(model, longest, options);
    keep(ready);
    if (!agreement.agree(ready.ok())) return;
    const ModelPartition& partition = model.partition();
    const bool speaks = partition.tp_rank == 0;  // the others of a replica have the same numbers
    for (std::size_t first = 0; first < sequences.size(); first += together) {
      ScoreOptions mine = options;
      for (std::size_t i = first; i < first + together; ++i) {
        mine.lengths.push_back(i < sequences.size() ? static_cast<std::int64_t>(sequences[i].size())
                                                    : 0);
      }
      mine.part = partition.replica % shape.cp;
      mine.parts = shape.cp;
      mine.done = [&](std::int64_t tokens) {
        const bool counts = speaks && partition.is_last();
        return agreement.agree(!options.done || options.done(counts ? tokens : 0));
      };
      const std::size_t own = first + static_cast<std::size_t>(partition.replica / shape.cp);
      const bool has_sequence = own < sequences.size();
      ScoreSinks to;
      JudgedRows judged;
      if (has_sequence && speaks) {
        to = sinks(own);
        judged.model = [&rows, own](std::int64_t row, const Prediction& one) {
          rows[own][static_cast<std::size_t>(row)].model = one;
        };
        judged.mtp = [&rows, own](std::int64_t row, const Prediction& one) {
          rows[own][static_cast<std::size_t>(row)].mtp = one;
        };
      }
      const Result<Score> one = score_reserved(
          model, has_sequence ? sequences[own] : std::vector<TokenId>(), mine, to, judged);
      if (!one.ok()) return keep(one.error());
    }
  });
  if (failure) return *failure;
  std::vector<Score> scores(sequences.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (const Score& row : rows[i]) scores[i].add(row);
  }
  return scores;
}

}  // namespace glint
