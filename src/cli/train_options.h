// Options of every command that trains: how its one process computes.
#pragma once

#include <string>

#include "cli/model_options.h"

namespace glint {

struct TrainRunOptions : ComputeOptions {
  template <class Visitor>
  void visit(Visitor&& v) {
    ComputeOptions::visit(
        v, {.dtype = "what to compute in; gradients and the optimiser are f32 with either",
            .backend = "who computes; auto: a GPU that is fit for it, else the CPU. The optimiser "
                       "is the host's"});
  }

  // Weights change where they lie, and products with their transposes read them as well: they are
  // not packed.
  RunOptions of_model(const std::string& model) const {
    RunOptions running = {*this};
    running.model = model;
    running.pack = "never";
    return running;
  }
};

}  // namespace glint
