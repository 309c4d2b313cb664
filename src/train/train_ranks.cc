#include "train/train_ranks.h"

#include <algorithm>
#include <mutex>

#include "base/str.h"

namespace glint {
namespace {

// Ranks that work at once: they go on until the caller, or the failure of one, ends it.
class Together {
 public:
  explicit Together(const GradientSource::OnPart& on_part) : on_part_(on_part) {}

  bool goes_on() {
    const std::lock_guard lock(mutex_);
    goes_on_ = goes_on_ && (!on_part_ || on_part_());
    return goes_on_;
  }
  void note(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status.ok() || failure_) return;
    failure_ = status.error();
    goes_on_ = false;
  }
  Status status() const { return failure_ ? Status(*failure_) : Status(Ok{}); }

 private:
  const GradientSource::OnPart& on_part_;
  std::mutex mutex_;
  bool goes_on_ = true;
  std::optional<Error> failure_;  // the first
};

}  // namespace

Result<std::unique_ptr<TrainRanks>> TrainRanks::open(ModelOptions options,
                                                     std::vector<std::unique_ptr<Ops>> backends,
                                                     const LoadProgress& progress) {
  GLINT_CHECK(std::ssize(backends) == options.shape.num_ranks(), "a backend for each rank");
  options.packing = Packing::kNever;
  std::unique_ptr<TrainRanks> all(new TrainRanks(options.shape));
  for (int rank = 0; rank < all->size(); ++rank) {
    Part& part = all->parts_[static_cast<std::size_t>(rank)];
    auto tape = std::make_unique<TapeOps>(std::move(backends[static_cast<std::size_t>(rank)]));
    part.tape = tape.get();
    options.rank = rank;
    options.mesh = all->ranks_.mesh(rank);
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              LoadedModel::load(options, std::move(tape), progress));
    all->ranks_.add(std::move(model));
    if (!part.tape->host_threads()) part.own_pool.emplace(std::max(options.threads, 1));
  }
  return all;
}

Status TrainRanks::make_parameters() {
  for (int rank = 0; rank < size(); ++rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    GLINT_TRY(Parameters parameters, Parameters::make(model(rank).weights(), *part.tape, size()));
    part.parameters.emplace(std::move(parameters));
    part.pass.emplace(model(rank), *part.tape);
  }
  return Ok{};
}

ThreadPool& TrainRanks::pool(int rank) {
  std::optional<ThreadPool>& own = parts_[static_cast<std::size_t>(rank)].own_pool;
  return own ? *own : *tape(rank).host_threads();
}

Status TrainRanks::on_all(const Work& work, const OnPart& on_part) {
  Together all(on_part);
  ranks_.run([&](int rank) { all.note(work(rank, [&] { return all.goes_on(); })); });
  return all.status();
}

int TrainRanks::num_batches(std::span<const TrainSequence> sequences,
                            std::int64_t batch_tokens) const {
  int count = 0;
  for (const auto& part : parts_of(sequences, size())) {
    count += parts_[0].pass->num_batches(part, batch_tokens);
  }
  return count;
}

Result<LossSums> TrainRanks::add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                                 std::int64_t batch_tokens, const OnPart& on_part) {
  if (size() == 1) return parts_[0].pass->add(sequences, terms, batch_tokens, on_part);
  GLINT_TRY_STATUS(check_train_sequences(model(), sequences));
  const auto parts = parts_of(sequences, size());
  std::vector<LossSums> sums(parts.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const auto at = static_cast<std::size_t>(rank);
    LossTerms own = terms;
    own.first_sequence += static_cast<std::size_t>(parts[at].data() - sequences.data());
    GLINT_TRY(sums[at], parts_[at].pass->add(parts[at], own, batch_tokens, goes_on));
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  LossSums all;
  for (const LossSums& one : sums) {
    all.nll += one.nll;
    all.mtp_nll += one.mtp_nll;
    all.tokens += one.tokens;
    all.mtp_tokens += one.mtp_tokens;
  }
  return all;
}

Result<std::vector<TokenScores>> TrainRanks::score(std::span<const TrainSequence> sequences,
                                                   float temperature, std::int64_t batch_tokens,
                                                   const OnPart& on_part, bool drafts) {
  if (size() == 1) {
    return parts_[0].pass->score(sequences, temperature, batch_tokens, on_part, drafts);
  }
  GLINT_TRY_STATUS(check_train_sequences(model(), sequences));
  const auto parts = parts_of(sequences, size());
  std::vector<std::vector<TokenScores>> scores(parts.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const auto at = static_cast<std::size_t>(rank);
    GLINT_TRY(scores[at],
              parts_[at].pass->score(parts[at], temperature, batch_tokens, goes_on, drafts));
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  std::vector<TokenScores> all;
  for (auto& some : scores) std::ranges::move(some, std::back_inserter(all));
  return all;
}

void TrainRanks::sum_gradients() {
  ranks_.run([&](int rank) {
    const std::span<float> all = parameters(rank).padded();
    const Tensor sums(reinterpret_cast<std::byte*>(all.data()), DType::kF32, {std::ssize(all)});
    replicas(rank).all_reduce(sums, sums);
  });
}

Json TrainRanks::describe(int rank) {
  Json json = describe_rank(model(rank));
  json.set("gradient_bytes", std::ssize(parameters(rank).padded()) * 4);
  Json::Object collectives;
  for (const GroupKind& kind : kGroupKinds) {
    const auto uses = ranks_.uses(rank, kind.name);
    if (!uses.empty()) collectives.emplace_back(kind.name, glint::describe(uses));
  }
  json.set("collectives", std::move(collectives));
  return json;
}

}  // namespace glint
