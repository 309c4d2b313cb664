// A loaded model as one of several ranks: what its leader tells, and what the others make of it.
#include <numeric>

#include "base/hash.h"
#include "base/str.h"
#include "runtime/loaded_model.h"

namespace glint {

Status LoadedModel::on_all(RankPass pass, const std::function<Status()>& own) {
  if (!followers_) return own();
  followers_->start(std::move(pass));
  Status mine = own();
  Status theirs = followers_->finish();
  return mine.ok() ? theirs : mine;
}

void LoadedModel::tell(RankPass pass, const HiddenRows& hidden) {
  if (!followers_) return;
  pass.hidden.assign(hidden.on_host.begin(), hidden.on_host.end());
  pass.hidden_rows.assign(hidden.rows.begin(), hidden.rows.end());
  if (hidden.on_device && pass.hidden_rows.empty()) {  // rows of it in order
    pass.hidden_rows.resize(static_cast<std::size_t>(hidden.on_device.dim(0)));
    std::iota(pass.hidden_rows.begin(), pass.hidden_rows.end(), 0);
  }
  if (hidden.on_device) {
    const std::ptrdiff_t begin = hidden.on_device.data - last_hidden_.data;
    const auto row = static_cast<std::ptrdiff_t>(hidden_row_bytes());
    GLINT_CHECK(begin >= 0 && begin % row == 0 && begin / row < last_hidden_.dim(0),
                "states that only the leader has");
    for (std::int32_t& at : pass.hidden_rows) at += static_cast<std::int32_t>(begin / row);
  }
  followers_->start(std::move(pass));
}

std::string LoadedModel::fingerprint() const {
  std::string all;
  for (const StoredTensor& tensor : checkpoint_->source().tensors()) {
    all += str(tensor.name, ' ', tensor.describe(), ' ', tensor.file, '\n');
  }
  return std::to_string(fnv1a(all));
}

Status LoadedModel::follow(const RankPass& pass) {
  const HiddenRows hidden = pass.hidden.empty()
                                ? HiddenRows{.on_device = last_hidden_, .rows = pass.hidden_rows}
                                : HiddenRows{.on_host = pass.hidden};
  switch (pass.kind) {
    case RankPass::Kind::kStep:
      (void)step(pass.rows, {.to_host = false});
      return Ok{};
    case RankPass::Kind::kDraft:
      (void)draft(pass.rows, hidden, pass.selection, /*to_host=*/false);
      return Ok{};
    case RankPass::Kind::kHead:
      (void)logits_of(hidden);
      return Ok{};
    case RankPass::Kind::kReservePages:
      return reserve_pages(pass.num_pages);
    case RankPass::Kind::kReserveSteps:
      return reserve_steps(pass.memory);
    case RankPass::Kind::kUpdateWeights:
      return take_weights(pass.path);
  }
  GLINT_CHECK(false, "an unknown pass");
}

}  // namespace glint
