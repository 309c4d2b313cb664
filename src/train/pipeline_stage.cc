#include "train/pipeline_stage.h"

#include <algorithm>
#include <utility>

namespace glint {

PipelineStage::PipelineStage(PassContext& context, std::size_t batches,
                             const GradientSource::OnPart& on_part, Make make)
    : context_(context),
      partition_(context.model->partition),
      signal_(partition_, context.host),
      batches_(batches),
      on_part_(on_part),
      make_(std::move(make)) {}

Status PipelineStage::run(LossSums& sums) {
  begin();
  for (std::size_t i = 0; i < std::min(batches_, behind()); ++i) {
    GLINT_TRY_STATUS(finish());
    begin();
  }
  for (;;) {
    GLINT_TRY_STATUS(finish());
    if (begun_.empty()) break;
    const std::unique_ptr<BatchPass> oldest = std::move(begun_.front());
    begun_.pop_front();
    GLINT_TRY_STATUS(oldest->backward(sums));
    begin();
    if (!partition_.is_first()) oldest->send_gradient();
  }
  return signal_.goes_on() ? Status(Ok{}) : interrupted();
}

void PipelineStage::begin() {
  if (count_ == batches_ || !signal_.goes_on()) return;
  is_told_ = false;
  signal_.hear(on_part_);
  if (!signal_.goes_on()) return;
  next_ = make_(count_, context_.saved(count_ % num_saved(partition_)));
  ++count_;
  next_->begin();
}

Status PipelineStage::finish() {
  if (!std::exchange(is_told_, true)) signal_.tell();
  if (!next_) return Ok{};
  GLINT_TRY_STATUS(next_->forward(true));
  begun_.push_back(std::move(next_));
  return Ok{};
}

}  // namespace glint
