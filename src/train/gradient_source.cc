#include "train/gradient_source.h"

namespace glint {

std::vector<TrainSequence> plain(const TokenSequences& sequences) {
  std::vector<TrainSequence> all;
  for (const std::vector<TokenId>& ids : sequences) all.push_back({.ids = ids});
  return all;
}

std::int64_t count_targets(std::span<const TrainSequence> sequences, std::size_t ahead) {
  std::int64_t count = 0;
  for (const TrainSequence& sequence : sequences) {
    for (std::size_t t = ahead; t < sequence.ids.size(); ++t) count += sequence.weight(t) != 0;
  }
  return count;
}

Result<LossSums> GradientSource::run(const TokenSequences& sequences, const LossOptions& options,
                                     std::int64_t batch_tokens, const OnPart& on_part) {
  const std::vector<TrainSequence> all = plain(sequences);
  const bool mtp = options.mtp_weight > 0;
  const std::int64_t tokens = count_targets(all, 1), mtp_tokens = count_targets(all, 2);
  if (tokens == 0) {
    return invalid("there is nothing to predict; give a sequence of at least 2 tokens");
  }
  if (mtp && mtp_tokens == 0) {
    return invalid(
        "there is nothing for the MTP layer to predict; give a sequence of at least 3 tokens");
  }
  const LossTerms terms = {
      .temperature = options.temperature,
      .scale = 1.0 / static_cast<double>(tokens),
      .mtp_scale = mtp ? options.mtp_weight / static_cast<double>(mtp_tokens) : 0};
  return add(all, terms, batch_tokens, on_part);
}

}  // namespace glint
