#include "runtime/key_reads.h"

#include "runtime/drafter.h"

namespace glint {

KeyReads::KeyReads(LoadedModel& model, std::span<const SliceRun> runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SliceRun& run = runs[i];
    const SequenceState& sequence = *run.sequence;
    const int row = sequence.prompt_size() - 1 - run.first;
    if (!sequence.request->want.selected_keys || sequence.told_keys) continue;
    if (row < 0 || row >= run.known) continue;
    GLINT_CHECK(run.slice->replica == 0, "keys are seen on the first replica");
    watched_.push_back({.run = i,
                        .row = run.row_begin + row,
                        .layers_per_position = std::vector<std::int32_t>(sequence.prompt_size())});
  }
  taps_.selected = [this, &model, runs](int, const Tensor& selected) {
    std::vector<std::int32_t> keys(static_cast<std::size_t>(selected.dim(1)));
    for (Watched& watched : watched_) {
      model.read_row(selected, watched.row, std::as_writable_bytes(std::span(keys)));
      slots_to_positions(keys, runs[watched.run].pages);
      for (const std::int32_t position : keys) {
        if (position >= 0) ++watched.layers_per_position[position];
      }
    }
  };
}

void KeyReads::tell(std::span<SliceRun> runs) {
  for (const Watched& watched : watched_) {
    SliceRun& run = runs[watched.run];
    run.sequence->told_keys = true;
    for (std::size_t i = 0; i < watched.layers_per_position.size(); ++i) {
      if (const std::int32_t layers = watched.layers_per_position[i]) {
        run.result->extras.selected_keys.push_back(
            {.position = static_cast<std::int32_t>(i), .num_layers = layers});
      }
    }
  }
}

}  // namespace glint
