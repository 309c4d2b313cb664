// RolloutFiles: the weights that a run has trained, as files for engines in other processes:
// servers that answer, and ranks that each read a part of what is quantised.
#pragma once

#include <optional>
#include <string>

#include "quant/recipe.h"
#include "train/trainer.h"

namespace glint {

class RolloutFiles {
 public:
  // In `folder`, which all that read them see, and where nothing is; quantised where there is a
  // recipe.
  RolloutFiles(std::string folder, std::optional<Recipe> recipe)
      : folder_(std::move(folder)), recipe_(std::move(recipe)) {}

  // Writes the weights as of the trainer's last step, unless that is done. Collective.
  Status write(Trainer& trainer);
  // Where they are.
  const std::string& dir() const { return dir_; }
  // All else in the folder goes. On one process, once nobody reads it.
  void remove_older() const;
  void remove_all() const;

 private:
  Status make_folder() const;
  Status quantize(const std::string& from) const;

  const std::string folder_;
  const std::optional<Recipe> recipe_;
  std::string dir_ = {};
};

}  // namespace glint
