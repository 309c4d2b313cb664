// Options of commands that run a model over ranks, and how they become ranks.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/json.h"
#include "cli/model_options.h"
#include "runtime/rank_threads.h"
#include "runtime/ranks.h"

namespace glint {

// Help of a layout's options, which commands put in their own terms.
struct LayoutHelp {
  const char* names_of_tp = "tp=N";
  const char* tp =
      "ranks that divide heads, inner rows, experts and vocabulary; more than the checkpoint or "
      "the threads carry become the most that they do";
  const char* pp =
      "stages of whole layers; more than the layers or the threads carry become the most that they "
      "do";
  const char* dp = "replicas, each with requests and a KV cache of its own; they step together";
  const char* ep =
      "ranks that share the routed experts, each expert on one of them: all that --tp and --dp "
      "make; without these, as many replicas";
  const char* cp =
      "replicas that share each sequence: they divide the rows of its prompt, and each has its "
      "whole "
      "cache; a divisor of --dp, or without it as many replicas (TensorRT-LLM's meaning)";
};

// For commands that run one sequence at a time: see check_one_sequence.
inline constexpr LayoutHelp kHelpOfOneSequence = {
    .dp = "replicas for --cp or --ep; alone it is refused"};

struct LayoutOptions {
  int tp = 1, pp = 1, dp = 1, ep = 1, cp = 1, reduce_slices = 0;

  template <class Visitor>
  void visit(Visitor&& v, const LayoutHelp& help = {}) {
    visit_sizes(v, help);
    v("reduce-slices=N", reduce_slices,
      "slices that sums of products are cut in, also on one rank: the same bits for every --tp "
      "that N is a multiple of, by a power of two (default: --tp)");
  }

  // All but --reduce-slices.
  template <class Visitor>
  void visit_sizes(Visitor&& v, const LayoutHelp& help) {
    v.section("Ranks");
    v(help.names_of_tp, tp, help.tp);
    v("pp=N", pp, help.pp);
    v("dp=N", dp, help.dp);
    v("ep=N", ep, help.ep);
    v("cp=N", cp, help.cp);
  }

  // The layout that is asked for: --ep or --cp alone makes as many replicas.
  MeshShape shape() const;
};

// Experts that move between the ranks that share them (EPLB).
struct BalanceOptions {
  bool enable_eplb = false;
  int ep_num_redundant_experts = 0;
  int eplb_rebalance_num_iterations = 1000;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Balance of experts");
    v("enable-eplb", enable_eplb,
      "move experts between the ranks of --ep by the load that they have had, a layer a step; "
      "answers stay the same (SGLang's meaning)");
    v("ep-num-redundant-experts=N", ep_num_redundant_experts,
      "slots of each layer for second copies of experts, over all ranks (SGLang's meaning)");
    v("eplb-rebalance-num-iterations=N", eplb_rebalance_num_iterations,
      "steps between two looks at the load (SGLang's meaning)");
  }
  // Steps between two looks; 0: experts stay.
  int balance_steps() const { return enable_eplb ? eplb_rebalance_num_iterations : 0; }
};

// Fails on a number of ranks below 1 or above 1,024, by its option.
Status check_sizes(const MeshShape& asked);

struct FittedShape {
  MeshShape shape = {};
  std::string note = {};  // "tp 8 -> 4: the checkpoint has 4 heads"; empty: as it was asked for
  int here = 1;           // ranks of this machine, which share its memory
};

// The layout that is asked for, with no more ranks than the model can be divided among and than
// there are threads.
Result<FittedShape> fit_shape(const LayoutOptions& layout, const ModelConfig& config, int threads);

// Whether weights are synthetic, and all of them are made on each rank: only GPUs make shares.
bool makes_whole_weights(const RunOptions& options, const ModelOptions& resolved);

// Fails where GPUs would run another layout than was asked for: their number was chosen for it.
Status check_fitted(const FittedShape& fitted, const RunOptions& options);

// Lets experts move in `fitted`, as far as the model and its ranks allow it, which the note says.
Status fit_balance(const BalanceOptions& options, const ModelConfig& config, FittedShape& fitted);

// The layout by option, as ranks that are started apart compare it (RankHello): without `all` those
// parts alone that differ from one rank's.
std::map<std::string, std::string> values_of(const MeshShape& shape, bool all);
// Likewise the number formats.
std::map<std::string, std::string> values_of(const RunOptions& options, bool all);

// Fails where ranks are asked for, `here` of them on this machine, maybe `launched` by another
// program, of a backend, or of weights, that cannot have them.
Status check_ranks(const MeshShape& shape, int here, bool launched, const RunOptions& options,
                   const ModelOptions& resolved);

// Every rank's model, of the same files, with its share of the host's threads, on a device and a
// backend of its own.
Result<std::unique_ptr<Ranks>> load_ranks(const RunOptions& options, const ModelOptions& resolved,
                                          const OpenedModel& opened, Cli& cli);

// A model over ranks that are threads of this process: what the first one runs, all run.
class LedRanks {
 public:
  explicit LedRanks(std::unique_ptr<Ranks> ranks)
      : ranks_(std::move(ranks)), followers_(std::make_unique<RankThreads>(*ranks_)) {}

  Ranks& ranks() const { return *ranks_; }
  LoadedModel& first() const { return ranks_->model(0); }
  // Until the others have run what the first has run: then anyone may use their threads.
  Status wait() const { return followers_->finish(); }

 private:
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<RankThreads> followers_;
};

// Fails on replicas that would have nothing to do for a command that runs one sequence after
// another, on the first of them: others have but experts to give.
Status check_one_sequence(const LayoutOptions& layout);

// The model of `resolved` in the layout that fits, which is noted where it is not the one asked
// for.
Result<LedRanks> load_led_ranks(const LayoutOptions& layout, const RunOptions& options,
                                ModelOptions resolved, const OpenedModel& opened, Cli& cli);

// Each rank's part of the model, bytes of weights, and traffic of its collectives so far. From any
// thread.
Json to_json(Ranks& ranks);

}  // namespace glint
