// Options of every command that learns: AdamW, and its rate over the steps, by Megatron's names.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "train/optimizer.h"

namespace glint {

struct OptimizerOptions {
  double lr = 1e-6, min_lr = 0;
  std::string lr_decay_style = "constant";
  int lr_warmup_iters = 0;
  double adam_beta1 = 0.9, adam_beta2 = 0.98, adam_eps = 1e-8, weight_decay = 0.1, clip_grad = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("lr=R", lr, "learning rate after the warm-up");
    v("lr-decay-style,lr-schedule", lr_decay_style, "how it goes on until the last step",
      {"constant", "linear", "cosine"});
    v("min-lr=R", min_lr, "to what it falls, with linear and cosine");
    v("lr-warmup-iters,warmup=N", lr_warmup_iters,
      "steps over which it rises, from 0 for the first");
    v("adam-beta1,beta1=B", adam_beta1, "decay of AdamW's mean of gradients");
    v("adam-beta2,beta2=B", adam_beta2, "decay of its mean of their squares");
    v("adam-eps=E", adam_eps, "added to the root of that");
    v("weight-decay=D", weight_decay, "decoupled; of matrices only");
    v("clip-grad=N", clip_grad, "the norm that larger gradients are scaled to; 0: never");
  }

  Status check() const;
  AdamWOptions adamw() const;
  LearningRate learning_rate(std::int64_t total_steps) const;
  // How the rate goes over the steps, for the "schedule" of a checkpoint's state.
  std::string schedule(std::int64_t total_steps) const;
  // For people, where a run goes on by another schedule than that of its `state`; else empty.
  std::string note_after(const Json& state, std::int64_t total_steps) const;
};

}  // namespace glint
