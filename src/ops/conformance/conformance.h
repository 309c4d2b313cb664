// Conformance: does a backend compute what the contracts say? Every op on many shapes against the
// reference, each row alone against the same row in its batch and packed weights against plain ones
// (bit by bit), each overridden block against its composition, and no byte written that is not an
// output's. Tests of backends and `glint selftest` run it.
#pragma once

#include <functional>
#include <string>

#include "ops/backend.h"

namespace glint::conformance {

struct Options {
  std::string op = {};    // only this op or block: "sparse_mla"; empty = all
  std::string name = {};  // only cases whose name contains this: "fp8"
  bool timing = false;    // time the large shapes instead of comparing the small ones
};

struct CaseResult {
  std::string op;         // "linear", or a block: "moe"
  std::string name = {};  // "bf16 x nvfp4, T 7, 200 x 144"
  // Comparing: the error (largest relative L2 error of an output), and why it is not conformance;
  // empty if it is.
  double error = 0, tolerance = 0;
  std::string failure = {};
  // Timing: median seconds of a call and its least work; 0 otherwise.
  double seconds = 0;
  OpCost cost = {};
  bool in_f32 = false;  // activations in f32, else in bf16
};

// Names that Options::op may have: the ops, the blocks, the backward passes.
std::vector<std::string> op_names();

// Runs the cases that `backend`'s capabilities allow. Calls `on_case` after each; returns how many
// failed. `reference` is the oracle (ReferenceOps).
int run_conformance(Backend& backend, Backend& reference, const Options& options,
                    const std::function<void(const CaseResult&)>& on_case);

}  // namespace glint::conformance
