// A plan of training as a table, and as JSON.
#include "base/str.h"
#include "plan/train_plan.h"

namespace glint {
namespace {

std::string line(const std::string& name, const std::string& value) {
  return formatted("  %-26s %s\n", name.c_str(), value.c_str());
}
std::string seconds(double s) { return formatted(s < 10 ? "%.2f s" : "%.0f s", s); }

std::string memory(const TrainPlan& p) {
  const TrainMemory& m = p.gpu;
  const bool is_gpu = !p.options.device.is_host();
  std::string text = is_gpu ? str("\nMemory of a GPU when it trains (stage ", p.stage + 1, " of ",
                                  p.stage_layers.size(), ", which needs most)\n")
                            : "\nMemory of the process when it trains\n";
  text += line("weights, bf16", human_bytes(m.weights));
  text += line("gradients, f32", human_bytes(m.gradients));
  text += line("masters and moments, f32",
               p.offloads
                   ? str("on the host, ", human_bytes(p.host_of_node), " of each node with weights")
                   : human_bytes(m.optimizer));
  if (m.reference > 0) text += line("reference model, bf16", human_bytes(m.reference));
  text += line("inputs of half layers", human_bytes(m.saved));
  text += line("half a layer, again", human_bytes(m.layer));
  if (m.buffers > 0) text += line("buffers", human_bytes(m.buffers));
  text += line("in all", str(human_bytes(m.total()), " of ", human_bytes(p.budget), "; 15 % of ",
                             human_bytes(p.options.device.memory), " stays free"));
  return text;
}

std::string engine(const TrainPlan& p) {
  const Deployment& e = p.engine;
  const bool is_gpu = !p.options.device.is_host();
  const std::string engines = p.options.on_trainer ? "the GPUs that train, divided as they are"
                                                   : str(counted(p.engines, "engine"), " of ",
                                                         p.options.engine_gpus, " GPUs");
  std::string text =
      is_gpu ? str("\nMemory of a GPU when it answers (", engines, ", ", e.options.format, ")\n")
             : str("\nMemory of the engine in it (", e.options.format, ")\n");
  text += line("weights", human_bytes(e.rank.weight_bytes()));
  text += line("cache",
               e.cache > 0 ? str(human_bytes(e.cache), ", ", with_commas(e.cache_tokens), " tokens")
                           : "no room");
  text += line("activations", human_bytes(e.rank.working_bytes()));
  return text;
}

std::string times(const TrainPlan& p) {
  if (p.compute_s == 0) return "";
  const TrainTraffic& t = p.traffic;
  std::string text =
      str("\nTraffic of a GPU in a round (answers of ", with_commas(p.mean_answer), " tokens)\n");
  text += line("experts (EP)", human_bytes(t.ep));
  text += line("matrices (TP)", human_bytes(t.tp));
  text += line("contexts (CP)", human_bytes(t.cp));
  text += line("stages (PP)", human_bytes(t.pp));
  text += line("gradients, weights (DP)", human_bytes(t.dp));
  text += line("weights to the engine", human_bytes(t.update));
  text += "\nTime of a round at least (floors of this device, not measurements)\n";
  if (p.rollout_s > 0) {
    text += line("rollouts", str(seconds(p.rollout_s), "; ", seconds(p.longest_s),
                                 " for an answer of ", with_commas(p.options.response_len)));
  }
  text += line("training", str(seconds(p.compute_s), " of arithmetic in ", p.micro_batches,
                               " micro-batches, ", seconds(p.traffic_s), " of traffic"));
  text += line("new weights", seconds(p.update_s));
  text += line("step time", seconds(p.round_s()));
  return text;
}

}  // namespace

std::string to_text(const TrainPlan& p) {
  const TrainPlanOptions& o = p.options;
  const TrainLayout& l = o.layout;
  const bool is_gpu = !o.device.is_host();
  std::string text = is_gpu ? str(o.model, " on ", l.gpus, " x ", o.device.product, "\n")
                            : str(o.model, " on this machine, one process\n");
  text += line("layout", str(describe(l), "  (expert TP ", l.etp, ", DP ", l.dp(), ", expert DP ",
                             l.expert_dp(), ")"));
  std::string stages;
  for (const int layers : p.stage_layers) stages += str(stages.empty() ? "" : " + ", layers);
  text += line("layers", stages);
  const std::int64_t a_batch = std::int64_t{o.tokens_per_gpu} * l.cp;
  text += line("a round",
               str(o.prompts, " prompts x ", o.samples, " answers of up to ",
                   with_commas(o.response_len), " tokens; micro-batches of ", with_commas(a_batch),
                   o.response_len > a_batch ? ", or of one longer answer" : ""));
  if (p.offloads && !o.offload_optimizer) {
    text += line("turned on",
                 "--enable-optimizer-offload, as the optimiser does not fit beside "
                 "the rest");
  }
  return text + memory(p) + engine(p) + times(p);
}

Json to_json(const TrainPlan& p) {
  const TrainLayout& l = p.options.layout;
  const TrainMemory& m = p.gpu;
  const TrainTraffic& t = p.traffic;
  Json::Array layers;
  for (const int n : p.stage_layers) layers.push_back(n);
  return Json::Object{{"model", p.options.model},
                      {"device", std::string(p.options.device.name)},
                      {"gpus", l.gpus},
                      {"layout", Json::Object{{"tp", l.tp},
                                              {"pp", l.pp},
                                              {"cp", l.cp},
                                              {"ep", l.ep},
                                              {"etp", l.etp},
                                              {"dp", l.dp()},
                                              {"expert_dp", l.expert_dp()},
                                              {"layers", std::move(layers)}}},
                      {"memory", Json::Object{{"weights", m.weights},
                                              {"gradients", m.gradients},
                                              {"optimizer", m.optimizer},
                                              {"reference", m.reference},
                                              {"saved", m.saved},
                                              {"layer", m.layer},
                                              {"buffers", m.buffers},
                                              {"total", m.total()},
                                              {"budget", p.budget},
                                              {"host_of_node", p.host_of_node}}},
                      {"optimizer_offload", p.offloads},
                      {"engine", Json::Object{{"count", p.engines},
                                              {"gpus", p.options.engine_gpus},
                                              {"format", p.engine.options.format},
                                              {"weights", p.engine.rank.weight_bytes()},
                                              {"cache_tokens", p.engine.cache_tokens}}},
                      {"traffic", Json::Object{{"tp", t.tp},
                                               {"ep", t.ep},
                                               {"cp", t.cp},
                                               {"pp", t.pp},
                                               {"dp", t.dp},
                                               {"update", t.update}}},
                      {"seconds", Json::Object{{"rollout", p.rollout_s},
                                               {"rollout_longest", p.longest_s},
                                               {"training", p.compute_s},
                                               {"traffic", p.traffic_s},
                                               {"update", p.update_s},
                                               {"round", p.round_s()}}},
                      {"misfit", p.misfit}};
}

}  // namespace glint
