#include "train/train_ranks.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "base/bytes.h"
#include "base/str.h"
#include "train/as_tensor.h"
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

// A pass of one rank, which ends where memory does that nobody planned. Ranks that wait for others
// cannot end alone: there the process does.
template <class Pass>
auto unless_memory_ends(const Pass& pass) -> decltype(pass()) {
  try {
    return pass();
  } catch (const std::bad_alloc&) {
    return exhausted("no memory is left for a batch; a smaller --batch-tokens needs less");
  }
}

// Both are of the same sequences; each token has a score in one of them.
void add_scores(std::span<TokenScores> to, std::span<const TokenScores> more) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    for (std::vector<float> TokenScores::*const of :
         {&TokenScores::log_probs, &TokenScores::entropies, &TokenScores::served}) {
      std::ranges::transform(to[i].*of, more[i].*of, (to[i].*of).begin(), std::plus());
    }
  }
}

}  // namespace

Result<std::unique_ptr<TrainRanks>> TrainRanks::open(ModelOptions options,
                                                     std::vector<std::unique_ptr<Backend>> backends,
                                                     const LoadProgress& progress,
                                                     std::optional<OpenedModel> opened,
                                                     const TrainPeers& peers) {
  GLINT_CHECK(peers.is_alone() || peers.size() == options.shape.num_ranks(), "peers of a layout");
  const int here = peers.is_alone() ? options.shape.num_ranks() : 1;
  GLINT_CHECK(std::ssize(backends) == here, "a backend for each rank");
  GLINT_TRY_STATUS(check_shape(options.shape));
  GLINT_CHECK(options.shape.num_slices() == options.shape.tp, "a layout that does not train");
  if (!opened) {
    GLINT_TRY(opened, open_model(options));
  }
  // Each makes its own as it loads.
  if (opened->checkpoint) GLINT_TRY_STATUS(peers.expect_room_for_copies(*opened->checkpoint));
  const bool are_parts = opened->checkpoint && opened->checkpoint->source().is_of_rank();
  options.packing = Packing::kNever;
  std::unique_ptr<TrainRanks> all(new TrainRanks(options.shape, peers));
  for (int rank = 0; rank < all->size(); ++rank) {
    Part& part = all->parts_[static_cast<std::size_t>(rank)];
    DecoratedBackend taped(std::move(backends[static_cast<std::size_t>(rank)]));
    options.rank = all->ranks_.first() + rank;
    options.mesh = all->ranks_.mesh(rank);
    options.mesh.dp = &self_comm();  // by the host alone: a group takes memory of the device
    part.tape = &TapeOps::decorate(taped);
    options.decorate_mesh = [&part](Mesh& mesh) {
      if (mesh.tp->size() > 1) mesh.tp = &part.tp.emplace(*mesh.tp, *part.tape);
      if (mesh.cp->size() > 1) mesh.cp = &part.cp.emplace(*mesh.cp, *part.tape);
      if (mesh.ep->size() > 1) mesh.ep = &part.ep.emplace(*mesh.ep, *part.tape);
    };
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              LoadedModel::load(options, std::move(taped), progress, opened->again()));
    all->ranks_.add(std::move(model));
    if (!all->model(rank).backend().host_threads()) {
      part.own_pool.emplace(std::max(options.threads, 1));
    }
    const int sharing = peers.is_alone() ? all->size() : peers.here();
    part.pass.emplace(all->model(rank), *part.tape, all->ranks_.mesh(rank),
                      part.tape->device().is_host() ? sharing : 1);
  }
  GLINT_TRY_STATUS(
      all->on_all([&](int rank, const OnPart&) { return all->model(rank).connect_ranks(); }));
  const bool looks = !peers.is_alone() && !are_parts;
  GLINT_TRY_STATUS(
      peers.expect_same_files(all->model().options().dir, looks ? all->model().fingerprint() : ""));
  return all;
}

Status TrainRanks::make_parameters() {
  for (int rank = 0; rank < size(); ++rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    GLINT_TRY(Parameters parameters,
              Parameters::make(model(rank).weights(), *part.tape, model(rank).partition(), peers_));
    part.parameters.emplace(std::move(parameters));
  }
  const std::vector<ModelTensor> tensors = model_tensors(model().config());
  // Facts of each rank of all: whether it borrows, and has each tensor.
  std::vector<std::string> facts;
  for (const Part& part : parts_) {
    const ParameterSection& last = part.parameters->sections().back();
    std::string& own = facts.emplace_back();
    own += last.kind == ParameterSection::Kind::kBorrowed ? '1' : '0';
    for (const ModelTensor& tensor : tensors) own += part.parameters->find(tensor) ? '1' : '0';
  }
  if (!peers_.is_alone()) facts = peers_.gather(facts[0]);
  const int stage = shape().tp * shape().dp;  // its ranks
  for (int i = 0; i < size() && shape().pp > 1; ++i) {
    const int rank = ranks_.first() + i, last = rank + stage * (shape().pp - 1);
    if (rank < stage && facts[static_cast<std::size_t>(last)][0] == '1') {
      parameters(i).lend(shape().pp - 1);
    }
  }
  trained_.clear();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto has = [&](const std::string& fact) { return fact[t + 1] == '1'; };
    if (std::ranges::any_of(facts, has)) trained_.push_back(tensors[t]);
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
  return peers_.agree(all.status());
}

std::vector<std::string> TrainRanks::of_replicas(std::vector<std::string> said) {
  if (!peers_.is_alone()) said = peers_.gather(said[0]);
  std::vector<std::string> all;
  const int last = shape().tp * shape().dp * (shape().pp - 1);  // the first rank of the last stage
  for (int replica = 0; replica < shape().dp; ++replica) {
    all.push_back(std::move(said[static_cast<std::size_t>(last + replica * shape().tp)]));
  }
  return all;
}

Status TrainRanks::reserve(const BatchShape& most) {
  return on_all([&](int rank, const OnPart&) { return pass(rank).reserve(most); });
}

int TrainRanks::num_batches(std::span<const TrainSequence> sequences, std::int64_t batch_tokens,
                            bool drafts) const {
  int sum = 0, most = 0;
  for (const auto& part : dealt_out(sequences)) {
    const int count = parts_[0].pass->num_batches(part, batch_tokens, drafts);
    sum += count;
    most = std::max(most, count);
  }
  return (shape().ep > 1 ? most * shape().dp : sum) * shape().tp;
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
  std::vector<std::span<const TrainSequence>> all;
  for (const auto& part : parts_of(sequences, shape().num_sequence_groups(), shape().cp == 1))
    all.insert(all.end(), static_cast<std::size_t>(shape().cp), part);
  return all;
}

Result<LossSums> TrainRanks::add(std::span<const TrainSequence> sequences, const LossTerms& terms,
                                 std::int64_t batch_tokens, const OnPart& on_part) {
  if (shape().num_ranks() == 1) {
    return unless_memory_ends(
        [&] { return parts_[0].pass->add(sequences, terms, batch_tokens, on_part); });
  }
  GLINT_TRY_STATUS(check_train_sequences(model(), sequences));
  const auto parts = dealt_out(sequences);
  std::vector<std::string> sums(parts_.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const std::span<const TrainSequence> mine = parts[static_cast<std::size_t>(replica_of(rank))];
    LossTerms own = terms;
    own.first_sequence += static_cast<std::size_t>(mine.data() - sequences.data());
    GLINT_TRY(const LossSums found,
              parts_[static_cast<std::size_t>(rank)].pass->add(mine, own, batch_tokens, goes_on));
    ByteWriter write;
    write(found);
    sums[static_cast<std::size_t>(rank)] = write.take();
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  if (terms.loss && !peers_.is_alone()) {
    for (const std::string& seen : peers_.gather(terms.loss->tell_seen())) {
      terms.loss->take_seen(seen);
    }
  }
  LossSums all;
  const std::vector<std::string> said = of_replicas(std::move(sums));
  for (std::size_t replica = 0; replica < said.size(); ++replica) {
    LossSums one;
    ByteReader read(said[replica]);
    read(one);
    all.nll += one.nll;
    all.mtp_nll += one.mtp_nll;
    if (replica % static_cast<std::size_t>(shape().cp) != 0) continue;  // the same tokens
    all.tokens += one.tokens;
    all.mtp_tokens += one.mtp_tokens;
  }
  return all;
}

Result<std::vector<TokenScores>> TrainRanks::score(std::span<const TrainSequence> sequences,
                                                   const ScoreTerms& terms,
                                                   std::int64_t batch_tokens,
                                                   const OnPart& on_part) {
  if (shape().num_ranks() == 1) {
    return unless_memory_ends(
        [&] { return parts_[0].pass->score(sequences, terms, batch_tokens, on_part); });
  }
  GLINT_TRY_STATUS(check_train_sequences(model(), sequences));
  GLINT_CHECK(shape().cp == 1 || !terms.drafts, "scores of drafts where sequences are shared");
  const auto parts = dealt_out(sequences);
  std::vector<std::string> scores(parts_.size());
  const Work work = [&](int rank, const OnPart& goes_on) -> Status {
    const auto at = static_cast<std::size_t>(replica_of(rank));
    GradientPass& own = pass(rank);
    GLINT_TRY(const auto found, own.score(parts[at], terms, batch_tokens, goes_on));
    if (speaks(rank)) scores[static_cast<std::size_t>(rank)] = write_scores(found);
    return Ok{};
  };
  GLINT_TRY_STATUS(on_all(work, on_part));
  std::vector<TokenScores> all;
  const std::vector<std::string> said = of_replicas(std::move(scores));
  for (std::size_t replica = 0; replica < said.size(); ++replica) {
    std::vector<TokenScores> some = read_scores(said[replica]);
    if (replica % static_cast<std::size_t>(shape().cp) == 0) {
      std::ranges::move(some, std::back_inserter(all));
    } else {
      add_scores(std::span(all).last(some.size()), some);
    }
  }
  return all;
}

void TrainRanks::sum_gradients() {
  ranks_.run([&](int rank) {
    const Mesh mesh = ranks_.mesh(rank);
    Parameters& own = parameters(rank);
    own.fetch();
    own.add_borrowed(*mesh.pp);
    for (const Parameter& p : own.all()) {
      const Tensor gradient = as_tensor(own.values_of(p));
      if (!is_divided(p.tensor, shape())) mesh.tp->all_reduce(gradient, gradient);
      if (!is_dealt_out(p.tensor, shape())) mesh.dp->all_reduce(gradient, gradient);
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
