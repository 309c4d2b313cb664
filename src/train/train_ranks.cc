#include "train/train_ranks.h"

#include <algorithm>
#include <mutex>

#include "base/str.h"
#include "train/parameter_part.h"

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

// Both are of the same sequences; each token has a score in one of them.
void add_scores(std::vector<TokenScores>& to, const std::vector<TokenScores>& more) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    for (std::vector<float> TokenScores::*const of :
         {&TokenScores::log_probs, &TokenScores::entropies, &TokenScores::served}) {
      std::ranges::transform(to[i].*of, more[i].*of, (to[i].*of).begin(), std::plus());
    }
  }
}

}  // namespace

Status check_draft_loss(const MeshShape& shape, double mtp_scale) {
  if (shape.tp == 1 || mtp_scale == 0) return Ok{};
  return Error{ErrorCode::kUnsupported,
               "the draft layer's loss is not built over --tp; leave --mtp-loss out"};
}

Result<std::unique_ptr<TrainRanks>> TrainRanks::open(ModelOptions options,
                                                     std::vector<std::unique_ptr<Backend>> backends,
                                                     const LoadProgress& progress,
                                                     std::optional<OpenedModel> opened) {
  GLINT_CHECK(std::ssize(backends) == options.shape.num_ranks(), "a backend for each rank");
  GLINT_TRY_STATUS(check_shape(options.shape));
  GLINT_CHECK(options.shape.num_slices() == options.shape.tp, "a layout that does not train");
  if (backends.size() > 1 && !backends[0]->device().is_host()) {
    return Error{ErrorCode::kUnsupported,
                 str("several ranks train on the CPU alone, not on ", backends[0]->device().name(),
                     "; give --backend cpu, or one rank")};
  }
  if (!opened) {
    GLINT_TRY(opened, open_model(options));
  }
  options.packing = Packing::kNever;
  std::unique_ptr<TrainRanks> all(new TrainRanks(options.shape));
  for (int rank = 0; rank < all->size(); ++rank) {
    Part& part = all->parts_[static_cast<std::size_t>(rank)];
    DecoratedBackend taped(std::move(backends[static_cast<std::size_t>(rank)]));
    part.tape = &TapeOps::decorate(taped);
    options.rank = rank;
    options.mesh = all->ranks_.mesh(rank);
    if (options.shape.tp > 1) options.mesh.tp = &part.tp.emplace(*options.mesh.tp, *part.tape);
    if (options.shape.cp > 1) options.mesh.cp = &part.cp.emplace(*options.mesh.cp, *part.tape);
    if (options.shape.ep > 1) options.mesh.ep = &part.ep.emplace(*options.mesh.ep, *part.tape);
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              LoadedModel::load(options, std::move(taped), progress, opened->again()));
    all->ranks_.add(std::move(model));
    if (!all->model(rank).backend().host_threads()) {
      part.own_pool.emplace(std::max(options.threads, 1));
    }
  }
  const ModelWeights& last = all->model(all->size() - 1).weights();
  if (options.shape.pp > 1 && last.has_tied_head() && !last.embed_tokens) {
    return Error{ErrorCode::kUnsupported,
                 str(options.dir,
                     " has one matrix for embedding and head, which stages do not share; "
                     "leave --pp out")};
  }
  return all;
}

Status TrainRanks::make_parameters() {
  for (int rank = 0; rank < size(); ++rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    GLINT_TRY(Parameters parameters,
              Parameters::make(model(rank).weights(), *part.tape, model(rank).shard()));
    part.parameters.emplace(std::move(parameters));
    part.pass.emplace(model(rank), *part.tape);
  }
  const int stage = shape().tp * shape().dp;  // its ranks
  for (int rank = 0; rank < stage && shape().pp > 1; ++rank) {
    const int last = rank + stage * (shape().pp - 1);
    const std::vector<ParameterSection>& sections = parameters(last).sections();
    if (sections.back().kind == ParameterSection::Kind::kBorrowed) {
      parameters(rank).lend(shape().pp - 1);
    }
  }
  trained_.clear();
  for (const ModelTensor& tensor : model_tensors(model().config())) {
    const auto has = [&](const Part& part) { return part.parameters->find(tensor) != nullptr; };
    if (std::ranges::any_of(parts_, has)) trained_.push_back(tensor);
  }
  return Ok{};
}

std::int64_t TrainRanks::num_trained() const {
  std::int64_t count = 0;
  for (const ModelTensor& tensor : trained_) count += tensor.parameters();
  return count;
}

ThreadPool& TrainRanks::pool(int rank) {
  std::optional<ThreadPool>& own = parts_[static_cast<std::size_t>(rank)].own_pool;
  return own ? *own : *ranks_.model(rank).backend().host_threads();
}

Status TrainRanks::on_all(const Work& work, const OnPart& on_part) {
  Together all(on_part);
  ranks_.run([&](int rank) { all.note(work(rank, [&] { return all.goes_on(); })); });
  return all.status();
}

int TrainRanks::num_batches(std::span<const TrainSequence> sequences,
                            std::int64_t batch_tokens) const {
  int sum = 0, most = 0;
  for (const auto& part : dealt_out(sequences)) {
    const int count = parts_[0].pass->num_batches(part, batch_tokens);
    sum += count;
    most = std::max(most, count);
  }
  return shape().ep > 1 ? most * shape().ep * shape().tp : sum * shape().tp;
}

int TrainRanks::parts_of_batch() const {
  const int ranks = shape().tp * shape().dp;
  int parts = 0;
  for (int stage = 0; stage < shape().pp; ++stage) {
    parts += parts_[static_cast<std::size_t>(stage * ranks)].pass->parts_of_batch();
  }
  return parts;
}

std::vector<std::span<const TrainSequence>> TrainRanks::dealt_out(
    std::span<const TrainSequence> sequences) const {
  if (shape().cp == 1) return parts_of(sequences, shape().dp);
  return std::vector(static_cast<std::size_t>(shape().dp), sequences);
}

Result<LossSums> TrainRanks::add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                                 std::int64_t batch_tokens, const OnPart& on_part) {
  if (size() == 1) return parts_[0].pass->add(sequences, terms, batch_tokens, on_part);
  GLINT_TRY_STATUS(check_draft_loss(shape(), terms.mtp_scale));
  GLINT_TRY_STATUS(check_train_sequences(model(), sequences));
  const auto parts = dealt_out(sequences);
  std::vector<LossSums> sums(parts.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const std::span<const TrainSequence> mine = parts[static_cast<std::size_t>(shard_of(rank))];
    LossTerms own = terms;
    own.first_sequence += static_cast<std::size_t>(mine.data() - sequences.data());
    GLINT_TRY(const LossSums found,
              parts_[static_cast<std::size_t>(rank)].pass->add(mine, own, batch_tokens, goes_on));
    if (speaks(rank)) sums[static_cast<std::size_t>(shard_of(rank))] = found;
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  LossSums all;
  for (const LossSums& one : sums) {
    all.nll += one.nll;
    all.mtp_nll += one.mtp_nll;
    if (shape().cp > 1 && &one != &sums[0]) continue;  // the same tokens
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
  GLINT_CHECK(shape().cp == 1 || !drafts, "scores of drafts where sequences are shared");
  const auto parts = dealt_out(sequences);
  std::vector<std::vector<TokenScores>> scores(parts.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const auto at = static_cast<std::size_t>(shard_of(rank));
    GradientPass& own = pass(rank);
    GLINT_TRY(auto found, own.score(parts[at], temperature, batch_tokens, goes_on, drafts));
    if (speaks(rank)) scores[at] = std::move(found);
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  std::vector<TokenScores> all = std::move(scores[0]);
  for (std::size_t i = 1; i < scores.size(); ++i) {
    if (shape().cp > 1) {
      add_scores(all, scores[i]);
    } else {
      std::ranges::move(scores[i], std::back_inserter(all));
    }
  }
  return all;
}

void TrainRanks::sum_gradients() {
  ranks_.run([&](int rank) {
    const Mesh mesh = ranks_.mesh(rank);
    parameters(rank).add_borrowed(*mesh.pp);
    for (const Parameter& p : parameters(rank).all()) {
      const bool has_experts = p.tensor.role == TensorRole::kRoutedExpert && shape().ep > 1;
      for (const Tensor& gradient : {p.gradient, p.gradient_of_values}) {
        if (!gradient) continue;
        if (!is_divided(p.tensor, shape())) mesh.tp->all_reduce(gradient, gradient);
        if (!has_experts) mesh.dp->all_reduce(gradient, gradient);
      }
    }
  });
}

Json TrainRanks::describe(int rank) {
  Json json = describe_rank(model(rank));
  json.set("gradient_bytes", parameters(rank).bytes());
  Json::Object collectives;
  for (const GroupKind& kind : kGroupKinds) {
    const auto uses = ranks_.uses(rank, kind.name);
    if (!uses.empty()) collectives.emplace_back(kind.name, glint::describe(uses));
  }
  json.set("collectives", std::move(collectives));
  return json;
}

}  // namespace glint
