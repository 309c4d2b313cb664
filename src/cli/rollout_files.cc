#include "cli/rollout_files.h"

#include <filesystem>

#include "base/str.h"
#include "base/system_error.h"
#include "base/thread_pool.h"
#include "quant/convert.h"

namespace glint {

namespace fs = std::filesystem;

Status RolloutFiles::write(Trainer& trainer) {
  const TrainPeers& peers = trainer.ranks().peers();
  const std::string dir = str(folder_, "/step-", trainer.steps_done());
  if (dir == dir_) return Ok{};
  dir_ = dir;
  const std::string saved = recipe_ ? dir_ + "-bf16" : dir_;
  GLINT_TRY_STATUS(peers.on_first([&] { return make_folder(); }));
  GLINT_TRY_STATUS(trainer.save_weights(saved).in("weights for those who answer"));
  if (!recipe_) return Ok{};
  return peers.on_first([&] { return quantize(saved); });
}

Status RolloutFiles::make_folder() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return system_error("cannot create", folder_, error.value());
  return Ok{};
}

Status RolloutFiles::quantize(const std::string& from) const {
  ThreadPool pool(available_cpus());
  GLINT_TRY(Conversion conversion,
            Conversion::prepare({.source = from, .out = dir_, .recipe = *recipe_}));
  GLINT_TRY_STATUS(conversion.run(pool, [](std::int64_t) {}));
  std::error_code error;
  fs::remove_all(from, error);
  return Ok{};
}

void RolloutFiles::remove_older() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename() != fs::path(dir_).filename()) fs::remove_all(entry.path(), error);
  }
}

void RolloutFiles::remove_all() const {
  std::error_code error;
  fs::remove_all(folder_, error);
}

}  // namespace glint
