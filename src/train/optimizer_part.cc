#include "train/optimizer_part.h"

#include <algorithm>
#include <numeric>

#include "train/as_tensor.h"

namespace glint {
namespace {

// Every rank's values, in the order of ranks.
std::vector<double> gathered(std::span<double> values, Comm& comm) {
  std::vector<double> all(values.size() * static_cast<std::size_t>(comm.size()));
  comm.all_gather(as_tensor(values), as_tensor(all));
  return all;
}

std::size_t index_of(OptimizerPart::Value value) { return static_cast<std::size_t>(value); }

}  // namespace

OptimizerPart::OptimizerPart(Parameters& parameters, const Mesh& mesh)
    : parameters_(parameters), pp_(*mesh.pp) {
  using Kind = ParameterSection::Kind;
  for (const ParameterSection& section : parameters.sections()) {
    if (section.kind == Kind::kBorrowed) continue;
    Share& share =
        shares_.emplace_back(Share{.offset = section.offset, .padded = section.padded()});
    if (section.kind == Kind::kDivided) share.others = mesh.tp;
    if (section.kind == Kind::kExperts) share.others = mesh.ep;
    const bool is_whole = section.kind == Kind::kWhole;
    if (is_whole && mesh.tp->size() > 1) share.groups.push_back(mesh.tp);
    if (section.kind != Kind::kExperts && mesh.dp->size() > 1) share.groups.push_back(mesh.dp);
    std::int64_t index = 0, count = 1;
    for (const Comm* const group : share.groups) {
      index = index * group->size() + group->rank();
      count *= group->size();
    }
    GLINT_CHECK(count == section.shares, "shares of other groups");
    const std::int64_t before = std::min(index * section.share, section.count);
    share.first = section.offset + before;
    share.size = std::min(section.share, section.count - before);
    for (auto& values : share.values) values.resize(static_cast<std::size_t>(share.size));
  }
}

std::int64_t OptimizerPart::size() const {
  std::int64_t size = 0;
  for (const Share& share : shares_) size += share.size;
  return size;
}

std::vector<std::span<float>> OptimizerPart::cuts_of(const Share& share) const {
  std::vector<std::span<float>> cuts = {parameters_.padded().subspan(
      static_cast<std::size_t>(share.offset), static_cast<std::size_t>(share.padded))};
  for (const Comm* const group : share.groups) {
    const std::size_t size = cuts.back().size() / static_cast<std::size_t>(group->size());
    cuts.push_back(cuts.back().subspan(static_cast<std::size_t>(group->rank()) * size, size));
  }
  return cuts;
}

double OptimizerPart::reduce(ThreadPool& pool) {
  parameters_.fetch();
  parameters_.add_borrowed(pp_);
  std::vector<double> all;
  for (const Share& share : shares_) {
    const std::vector<std::span<float>> cuts = cuts_of(share);
    for (std::size_t i = 0; i < share.groups.size(); ++i) {
      share.groups[i]->reduce_scatter(as_tensor(cuts[i]), as_tensor(cuts[i + 1]));
    }
    std::vector<double> squares = squares_of(cuts.back(), pool);
    for (std::size_t i = share.groups.size(); i > 0; --i) {
      squares = gathered(squares, *share.groups[i - 1]);
    }
    if (share.others) {
      double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
      squares = gathered({&sum, 1}, *share.others);
    }
    all.insert(all.end(), squares.begin(), squares.end());
  }
  if (pp_.size() > 1) {
    double sum = std::accumulate(all.begin(), all.end(), 0.0);
    all = gathered({&sum, 1}, pp_);
  }
  return norm_of_squares(all);
}

void OptimizerPart::update(const AdamWStep& how, ThreadPool& pool) {
  for (Share& share : shares_) {
    update(share, how, pool);
    const std::vector<std::span<float>> cuts = cuts_of(share);
    std::ranges::copy(share.values[index_of(Value::kMaster)], cuts.back().begin());
    for (std::size_t i = share.groups.size(); i > 0; --i) {
      share.groups[i - 1]->all_gather(as_tensor(cuts[i]), as_tensor(cuts[i - 1]));
    }
  }
  parameters_.give_borrowed(pp_);
}

void OptimizerPart::update(Share& share, const AdamWStep& how, ThreadPool& pool) {
  for (const Parameter& p : parameters_.all()) {
    const std::int64_t begin = std::max(p.offset, share.first);
    const std::int64_t count = std::min(p.offset + p.count(), share.first + share.size) - begin;
    if (count <= 0) continue;
    const auto part = [&](Value value) {
      return std::span(share.values[index_of(value)])
          .subspan(static_cast<std::size_t>(begin - share.first), static_cast<std::size_t>(count));
    };
    AdamWStep step = how;
    if (!p.tensor.is_matrix()) step.weight_decay = 0;
    adamw(step,
          parameters_.padded().subspan(static_cast<std::size_t>(begin),
                                       static_cast<std::size_t>(count)),
          part(Value::kMaster), part(Value::kExpAvg), part(Value::kExpAvgSq), pool);
  }
}

void OptimizerPart::take(Value value, std::int64_t first, std::span<const float> values) {
  for (Share& share : shares_) {
    const std::int64_t begin = std::max(first, share.first);
    const std::int64_t end = std::min(first + std::ssize(values), share.first + share.size);
    if (begin >= end) continue;
    std::copy_n(&values[0] + (begin - first), end - begin,
                &share.values[index_of(value)][0] + (begin - share.first));
  }
}

void OptimizerPart::give(Value value, std::int64_t first, std::span<float> values) const {
  for (const Share& share : shares_) {
    const std::int64_t begin = std::max(first, share.first);
    const std::int64_t end = std::min(first + std::ssize(values), share.first + share.size);
    if (begin >= end) continue;
    std::copy_n(&share.values[index_of(value)][0] + (begin - share.first), end - begin,
                &values[0] + (begin - first));
  }
}

}  // namespace glint
