// GrammarMasks: what each row of a step may say under its sequence's grammar, computed on a thread
// of its own while the model runs.
#pragma once

#include "base/worker.h"
#include "runtime/slice_run.h"

namespace glint {

// The masks of one slice's sampling rows: row r as if the first r drafts had been taken. Rows after
// a draft that may not come have none: nobody looks at them.
struct RowMasks {
  std::vector<std::vector<std::uint32_t>> rows = {};  // an empty row: every token may come

  std::span<const std::uint32_t> row(std::size_t r) const {
    return r < rows.size() ? std::span<const std::uint32_t>(rows[r])
                           : std::span<const std::uint32_t>();
  }
};

class GrammarMasks {
 public:
  explicit GrammarMasks(int vocab_size)
      : words_((static_cast<std::size_t>(vocab_size) + 31) / 32) {}

  // `runs` outlive the wait. Until then nobody else may use their constraints.
  void start(std::span<const SliceRun> runs);

  // Then the masks are there.
  void wait() { worker_.wait(); }

  // Of each run, in order.
  std::span<const RowMasks> masks() const { return masks_; }

 private:
  void fill(const SliceRun& run, RowMasks& masks) const;

  std::size_t words_;
  std::vector<RowMasks> masks_;
  Worker worker_;
};

}  // namespace glint
