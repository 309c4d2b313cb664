// KeyReads: which positions the row of a prompt's last token attended to, and in how many layers,
// for the requests that want to know.
#pragma once

#include "runtime/loaded_model.h"
#include "runtime/slice_run.h"

namespace glint {

class KeyReads {
 public:
  // Watches the rows of `runs` that a request asked about, if any.
  KeyReads(LoadedModel& model, std::span<const SliceRun> runs);
  KeyReads(const KeyReads&) = delete;
  KeyReads& operator=(const KeyReads&) = delete;

  // For the step; null if nobody wants anything.
  const Taps* taps() const { return watched_.empty() ? nullptr : &taps_; }

  void tell(std::span<SliceRun> runs);

 private:
  struct Watched {
    std::size_t run = 0;
    std::int64_t row = 0;
    std::vector<std::int32_t> layers_per_position = {};
  };
  std::vector<Watched> watched_;
  Taps taps_;
};

}  // namespace glint
