// A deployment: a model on some devices, what it holds, what that leaves for the cache, and how
// fast it could be. The numbers of `glint plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/floors.h"
#include "runtime/memory_plan.h"

namespace glint {

struct DeploymentOptions {
  std::string model = {};   // as the user named it
  std::string format = {};  // of its weights, for people: "fp8"
  std::function<WeightFormat(const ModelTensor&)> formats = {};
  DeviceModel device = {};
  int count = 1;
  MeshShape layout = {};
  NumberFormats numbers = {};
  int max_drafts = 0;
  std::int64_t max_model_len = 0;  // 0: the model's
  int concurrency = 0;     // sequences that run at once; 0: what fits, at most 256 a replica
  int step_tokens = 8192;  // of one step at most
  int max_logprobs = 0;    // StepLimits
  std::int64_t input_len = 2048, output_len = 512;  // of the load that speeds are told for
  // The share that cache and the rest may take of a device's memory.
  double memory_share = 0.9;
  bool share_is_static = false;  // of weights and cache alone: activations come from the rest
  std::optional<std::int64_t> cache_bytes = {};  // exactly this much, of each device
  // The program that would run there, where it is known.
  struct Program {
    Backend* like = nullptr;                // TrialOptions
    std::int64_t group_bytes = 0;           // likewise
    std::optional<StepLimits> limits = {};  // of its steps; none: those of a server by default
    // Ranks that share a host's memory, of which `device` is the share of one; 0: each has a
    // device.
    int sharing = 0;
  };
  Program program = {};
};

// The floors of a decode step in which `batch` sequences go on, of all replicas together. With
// stages as many steps are in flight, each with a batch.
struct DecodePoint {
  int batch = 0;
  Floor floor = {};
  double tokens_per_s = 0;  // of all devices
  double sustained = 0;     // the same where every answer's prompt is prefilled in between
};

struct PrefillPoint {
  int tokens = 0;  // of the prompts of one step
  Floor floor = {};
  double tokens_per_s = 0;
};

struct ContextPoint {
  std::int64_t context = 0;
  std::int64_t sequences = 0;  // of that length, in all
};

struct Deployment {
  DeploymentOptions options = {};
  std::int64_t max_model_len = 0;
  int max_running = 0;            // of one replica, as planned for
  MemoryPlan rank = {};           // of the stage that needs most; where stages share, the mean page
  std::int64_t all_weights = 0;   // of all devices
  std::int64_t all_pages = 0;     // a page of each stage
  std::int64_t cache = 0;         // bytes of a device; below 0: that many are missing
  std::int64_t cache_tokens = 0;  // of one replica, in whole pages
  double bytes_per_token = 0;     // of the cache, of one device
  bool fits = false;
  std::string limit = {};  // what ends growth, or what does not fit, in a sentence
  std::vector<ContextPoint> contexts = {};
  std::vector<DecodePoint> decode = {};
  std::vector<PrefillPoint> prefill = {};

  // Sequences that run at once, of all replicas together: a server's --max-num-seqs.
  int all_running() const {
    return options.concurrency ? options.concurrency : max_running * options.layout.dp;
  }
  // Bytes on all devices together.
  std::int64_t all_working() const { return rank.working_bytes(options.count); }
  std::int64_t all_cache() const;
  // Bytes on a device.
  std::int64_t used() const;
};

// The settings with which `layout` has `count` ranks by its dp: "--dp to 8", or "--dp to 8 and --ep
// to 8" where experts are dealt out. Empty where the model cannot be divided so.
std::string settings_of_dp(const ModelConfig& config, MeshShape layout, int count);

// Fails if the model cannot be divided so. A deployment that does not fit has no speeds.
Result<Deployment> plan_deployment(const ModelConfig& config, const DeploymentOptions& options);

}  // namespace glint
