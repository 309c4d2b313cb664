#include "cli/rank_options.h"

#include <algorithm>

#include "base/str.h"
#include "cli/backends.h"
#include "cli/option_checks.h"

namespace glint {
namespace {

// "tp 8 -> 4: why"; for people, one after another.
void note(std::string& notes, const char* name, int asked, int fitted, const std::string& why) {
  if (asked == fitted) return;
  notes += str(notes.empty() ? "" : "; ", name, " ", asked, " -> ", fitted, ": ", why);
}

}  // namespace

MeshShape LayoutOptions::shape() const {
  const int made = tp == 1 ? std::max(ep, cp) : cp;
  return {.tp = tp,
          .cp = cp,
          .ep = ep,
          .pp = pp,
          .dp = dp == 1 ? made : dp,
          .reduce_slices = reduce_slices};
}

Status check_sizes(const MeshShape& asked) {
  for (const auto& [name, ranks] :
       {std::pair("tp", asked.tp), std::pair("ep", asked.ep), std::pair("cp", asked.cp),
        std::pair("dp", asked.dp), std::pair("pp", asked.pp)}) {  // --ep and --cp may make dp
    GLINT_TRY_STATUS(check_range(name, ranks, 1, 1024));
  }
  return Ok{};
}

Result<FittedShape> fit_shape(const LayoutOptions& layout, const ModelConfig& config, int threads) {
  MeshShape shape = {.tp = layout.tp, .reduce_slices = layout.reduce_slices};
  const MeshShape asked = layout.shape();
  GLINT_TRY_STATUS(check_sizes(asked));
  const int most = std::max(threads, 1);
  const std::string few = most == 1 ? "there is 1 thread" : str("there are ", most, " threads");
  const auto carried = [&](int most) {
    for (shape.tp = most; shape.tp > 1; --shape.tp) {
      shape.ep = layout.ep > 1 ? shape.tp : 1;
      if (plan_partition(config, shape, 0).ok()) break;
    }
    return shape.tp;
  };
  const int by_model = carried(layout.tp);
  const int tp = carried(std::min(by_model, most));
  FittedShape fitted;
  const int heads = config.num_attention_heads;
  note(fitted.note, "tp", layout.tp, tp,
       tp < by_model ? few
       : heads % layout.tp != 0
           ? str("the checkpoint has ", heads, " heads")
           : "the checkpoint's matrices, or --reduce-slices, divide no further");

  // Ranks that share the experts have one each at least.
  const std::string scarce = str("the checkpoint has ", config.n_routed_experts, " experts");
  const int with_threads = std::max(most / tp, 1);
  const int with_experts = layout.ep > 1 ? std::max(config.n_routed_experts / tp, 1) : asked.dp;
  shape.dp = std::min({asked.dp, with_threads, with_experts});
  note(fitted.note, "dp", asked.dp, shape.dp, with_experts < with_threads ? scarce : few);
  shape.cp = std::min(layout.cp, shape.dp);
  while (shape.dp % shape.cp) --shape.cp;
  note(fitted.note, "cp", layout.cp, shape.cp,
       shape.dp == 1 ? "there is 1 replica" : str("it divides the ", shape.dp, " replicas"));
  const int stage = shape.tp * shape.dp;
  shape.ep = layout.ep == 1 ? 1 : stage;
  const char* const members = shape.tp > 1 ? "ranks" : "replicas";
  note(fitted.note, "ep", layout.ep, shape.ep,
       stage == 1 ? "there is 1 replica" : str("there are ", stage, ' ', members));
  shape.pp = std::min(layout.pp, std::max(most / (shape.tp * shape.dp), 1));
  const bool is_deep = shape.pp <= config.num_hidden_layers;
  if (!is_deep) shape.pp = config.num_hidden_layers;
  note(fitted.note, "pp", layout.pp, shape.pp,
       is_deep ? few : str("the checkpoint has ", config.num_hidden_layers, " layers"));
  if (const auto planned = plan_partition(config, shape, 0); !planned.ok()) {
    // The number of ranks that was asked for is what the user knows.
    shape = {.tp = layout.tp, .reduce_slices = layout.reduce_slices};
    GLINT_TRY_STATUS(plan_partition(config, shape, 0));
    return planned.error();
  }
  fitted.shape = shape;
  fitted.here = shape.num_ranks();
  return fitted;
}

bool makes_whole_weights(const RunOptions& options, const ModelOptions& resolved) {
  return resolved.dummy && resolve_backend(options.backend) != "cuda";
}

Status check_fitted(const FittedShape& fitted, const RunOptions& options) {
  if (fitted.note.empty() || resolve_backend(options.backend) != "cuda") return Ok{};
  return unsupported(str(fitted.note,
                         "; on GPUs a layout is run as it is asked for: ask for one that "
                         "works, or run it with --backend cpu"));
}

Status fit_balance(const BalanceOptions& options, const ModelConfig& config, FittedShape& fitted) {
  const int redundant = options.ep_num_redundant_experts;
  GLINT_TRY_STATUS(check_least("ep-num-redundant-experts", redundant, 0));
  if (!options.enable_eplb) return Ok{};
  GLINT_TRY_STATUS(
      check_least("eplb-rebalance-num-iterations", options.eplb_rebalance_num_iterations, 1));
  MeshShape& shape = fitted.shape;
  const auto add = [&](const std::string& why) {
    fitted.note += str(fitted.note.empty() ? "" : "; ", why);
  };
  if (shape.ep == 1) {
    add("eplb -> off: experts are not shared by ranks (--ep)");
    return Ok{};
  }
  shape.moves_experts = true;
  shape.redundant_experts = std::min(redundant, config.n_routed_experts * (shape.ep - 1));
  note(fitted.note, "redundant experts", redundant, shape.redundant_experts,
       str("then each of ", shape.ep, " ranks has every expert"));
  return Ok{};
}

std::map<std::string, std::string> values_of(const MeshShape& shape, bool all) {
  std::map<std::string, std::string> values;
  for (const auto& [name, size] :
       {std::pair("--tp", shape.tp), std::pair("--dp", shape.dp), std::pair("--ep", shape.ep),
        std::pair("--pp", shape.pp), std::pair("--cp", shape.cp)}) {
    if (all || size != 1) values[name] = str(size);
  }
  if (all || shape.reduce_slices != 0) values["--reduce-slices"] = str(shape.num_slices());
  if (all || shape.moves_experts) values["--enable-eplb"] = shape.moves_experts ? "on" : "off";
  if (all || shape.redundant_experts != 0)
    values["--ep-num-redundant-experts"] = str(shape.redundant_experts);
  return values;
}

std::map<std::string, std::string> values_of(const RunOptions& options, bool all) {
  std::map<std::string, std::string> values;
  const RunOptions defaults;
  if (all || options.dtype != defaults.dtype) values["--dtype"] = options.dtype;
  if (all || !options.kv_dtype.empty())
    values["--kv-dtype"] = options.kv_dtype.empty() ? options.dtype : options.kv_dtype;
  if (all || !options.index.empty()) values["--index"] = index_of(options);
  return values;
}

Status check_ranks(const MeshShape& shape, int here, bool launched, const RunOptions& options,
                   const ModelOptions& resolved) {
  if (shape.num_ranks() > 1 && makes_whole_weights(options, resolved)) {
    return invalid(
        "synthetic weights are made whole on a CPU, by every rank; leave --tp, --cp, --ep, --dp "
        "and --pp out");
  }
  if (shape.num_ranks() == 1 || resolve_backend(options.backend) != "cuda") return Ok{};
  return check_devices(here, launched);
}

Result<std::unique_ptr<Ranks>> load_ranks(const RunOptions& options, const ModelOptions& resolved,
                                          const OpenedModel& opened, Cli& cli) {
  const MeshShape& shape = resolved.shape;
  GLINT_TRY_STATUS(check_sizes(shape));
  GLINT_TRY_STATUS(check_shape(shape));
  GLINT_TRY_STATUS(check_ranks(shape, shape.num_ranks(), false, options, resolved));
  GLINT_TRY(BackendOptions each, backend_options(options, cli));
  each.threads = std::max(resolved.threads / shape.num_ranks(), 1);
  auto ranks = std::make_unique<Ranks>(shape);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    ModelOptions one = resolved;
    one.threads = each.threads;
    one.ranks_here = ranks->size();
    one.rank = rank;
    one.mesh = ranks->mesh(rank);
    each.device = device_of_rank(rank, ranks->size());
    GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              load_model(one, std::move(backend), cli, opened.again()));
    ranks->add(std::move(model));
  }
  return ranks;
}

Status check_one_sequence(const LayoutOptions& layout) {
  if (layout.dp > 1 && layout.ep == 1 && layout.cp == 1) {
    return invalid(
        str("--dp is ", layout.dp,
            ", and replicas have sequences of their own, but this command runs on one; "
            "leave it out, or let replicas share the experts with --ep, or sequences with --cp"));
  }
  return Ok{};
}

Result<LedRanks> load_led_ranks(const LayoutOptions& layout, const RunOptions& options,
                                ModelOptions resolved, const OpenedModel& opened, Cli& cli) {
  GLINT_TRY(const FittedShape fitted, fit_shape(layout, opened.config, resolved.threads));
  GLINT_TRY_STATUS(check_fitted(fitted, options));
  if (!fitted.note.empty()) cli.console.note(fitted.note);
  resolved.shape = fitted.shape;
  GLINT_TRY(std::unique_ptr<Ranks> ranks, load_ranks(options, resolved, opened, cli));
  return LedRanks(std::move(ranks));
}

Json to_json(Ranks& ranks) {
  Json::Array all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    all.push_back(describe_rank(ranks.model(rank)));
    Json::Object collectives;
    for (const GroupKind& kind : kGroupKinds)
      collectives.emplace_back(kind.name, describe(ranks.uses(rank, kind.name)));
    all.back().set("collectives", std::move(collectives));
  }
  return all;
}

}  // namespace glint
