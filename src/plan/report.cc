#include "plan/report.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"

namespace glint {
namespace {

std::string whole(double number) { return with_commas(std::llround(number)); }
std::string line(const std::string& name, const std::string& value) {
  return formatted("  %-34s %s\n", name.c_str(), value.c_str());
}
std::string row(const std::string& name, std::int64_t each, std::int64_t all) {
  return formatted("  %-34s %14s %14s\n", name.c_str(), memory_size(each).c_str(),
                   memory_size(all).c_str());
}
std::string ms(double seconds) { return formatted("%.2f ms", seconds * 1e3); }

std::string memory_table(const Deployment& d) {
  const std::int64_t weights = d.rank.weight_bytes(), work = d.rank.working_bytes();
  const std::int64_t cache = std::max<std::int64_t>(d.cache, 0), graphs = d.rank.step.graphs;
  const std::int64_t all_graphs = graphs * d.options.count;
  std::string text = formatted("\n  %-34s %14s %14s\n", "", "per device", "in all");
  text += row("model weights", weights, d.all_weights);
  text += row("KV cache", cache, d.all_cache());
  text += row("activations and scratch", work - graphs, d.all_working() - all_graphs);
  if (graphs > 0) text += row("CUDA graphs", graphs, all_graphs);
  text += row(d.options.device.is_host() ? "memory used" : "VRAM used", weights + cache + work,
              d.all_weights + d.all_cache() + d.all_working());
  return text;
}

std::string weight_rows(const Deployment& d) {
  std::string text = "\nWeights of a rank\n";
  for (int i = 0; i < kNumTensorRoles; ++i) {
    const std::int64_t bytes = d.rank.weights[static_cast<std::size_t>(i)];
    if (bytes > 0) text += line(name_of(static_cast<TensorRole>(i)), memory_size(bytes));
  }
  if (d.rank.replicated) text += line("of them on every rank", memory_size(d.rank.replicated));
  return text;
}

std::string speeds(const PlanReport& r) {
  const Deployment& d = r.deployment;
  if (d.decode.empty()) return "";
  std::string text = str("\nFloors (no engine is faster): ", with_commas(d.options.input_len),
                         " tokens in, ", with_commas(d.options.output_len), " out");
  if (d.options.layout.pp > 1)
    text += str(", ", d.options.layout.pp, " batches in flight, one in each stage");
  text += "\n";
  text += formatted("  %8s %12s %14s %14s %16s\n", "batch", "step", "collectives", "tokens/s",
                    "with prefill/s");
  const DecodePoint *sustained = &d.decode[0], *burst = &d.decode[0];
  for (const DecodePoint& p : d.decode) {
    text += formatted("  %8d %12s %14s %14s %16s\n", p.batch, ms(p.floor.seconds).c_str(),
                      ms(p.floor.collectives).c_str(), whole(p.tokens_per_s).c_str(),
                      whole(p.sustained).c_str());
    if (p.sustained > sustained->sustained) sustained = &p;
    if (p.tokens_per_s > burst->tokens_per_s) burst = &p;
  }
  text += line("peak, sustained",
               str(whole(sustained->sustained), " tokens/s at batch ", sustained->batch));
  text += line("peak, burst", str(whole(burst->tokens_per_s), " tokens/s at batch ", burst->batch));
  for (const PrefillPoint& p : d.prefill) {
    text += line(str("prefill of ", with_commas(p.tokens), " tokens"),
                 str(ms(p.floor.seconds), ", ", whole(p.tokens_per_s), " tokens/s"));
  }
  if (const LayoutChoice* best = best_for_latency(r.layouts)) {
    text += line("best layout for latency",
                 str(describe(best->layout), ": ", ms(best->latency), " a token"));
  }
  if (const LayoutChoice* best = best_for_throughput(r.layouts)) {
    text += line("best layout for throughput",
                 str(describe(best->layout), ": ", whole(best->tokens_per_s), " tokens/s at batch ",
                     best->batch));
  }
  return text;
}

Json floor_json(const Floor& floor) {
  return Json::Object{{"seconds", floor.seconds},
                      {"collective_seconds", floor.collectives},
                      {"slowest_stage_seconds", floor.slowest},
                      {"rank_bytes", floor.bytes},
                      {"rank_flops", floor.flops}};
}

Json layout_json(const MeshShape& l) {
  return Json::Object{{"tp", l.tp}, {"ep", l.ep}, {"dp", l.dp},
                      {"pp", l.pp}, {"cp", l.cp}, {"reduce_slices", l.num_slices()}};
}

}  // namespace

std::string memory_size(std::int64_t bytes) {
  constexpr double kGiB = 1 << 30;
  const std::int64_t hundredths = std::llround(100 * static_cast<double>(bytes) / kGiB);
  if (hundredths < 100) return human_bytes(bytes);
  return with_commas(hundredths / 100) + formatted(".%02d GiB", static_cast<int>(hundredths % 100));
}

Result<PlanReport> make_report(const ModelConfig& config, const DeploymentOptions& options) {
  PlanReport report;
  GLINT_TRY(report.deployment, plan_deployment(config, options));
  if (options.device.bandwidth > 0) report.layouts = choose_layouts(config, options);
  report.advice = advise(config, report.deployment);
  return report;
}

std::string to_text(const PlanReport& r) {
  const Deployment& d = r.deployment;
  const DeploymentOptions& o = d.options;
  std::string text = str(o.model, " in ", o.format, " on ", o.count, " x ", o.device.product, ", ",
                         o.device.per_host > 1 && o.count > o.device.per_host
                             ? str("hosts of ", o.device.per_host, ", ")
                             : "",
                         describe(o.layout), "\n");
  text += d.fits ? "It fits.\n" : str("It does not fit: ", d.limit, ".\n");
  text += memory_table(d) + weight_rows(d);
  text += "\nCache\n";
  text += line("bytes per token and device",
               str(with_commas(static_cast<std::int64_t>(d.bytes_per_token)), ", latents ",
                   name_of(o.numbers.latent), ", index ", name_of(o.numbers.index)));
  text += line("tokens",
               str(with_commas(d.cache_tokens),
                   o.layout.dp > 1 ? str(" in each of ", o.layout.dp, " replicas") : "",
                   o.layout.cp > 1 ? str(", of which ", o.layout.cp, " share each sequence") : ""));
  for (const ContextPoint& p : d.contexts) {
    text += line(str("sequences of ", with_commas(p.context)), with_commas(p.sequences));
  }
  if (d.fits) text += line("limited by", d.limit);
  text += speeds(r);
  if (!r.advice.empty()) text += "\nAlso\n";
  for (const std::string& advice : r.advice) text += "  " + advice + "\n";
  return text;
}

Json to_json(const PlanReport& r) {
  const Deployment& d = r.deployment;
  const DeploymentOptions& o = d.options;
  Json::Object roles;
  for (int i = 0; i < kNumTensorRoles; ++i) {
    roles.emplace_back(name_of(static_cast<TensorRole>(i)),
                       d.rank.weights[static_cast<std::size_t>(i)]);
  }
  Json::Array contexts, decode, prefill, layouts, advice;
  for (const ContextPoint& p : d.contexts) {
    contexts.push_back(Json::Object{{"context", p.context}, {"sequences", p.sequences}});
  }
  for (const DecodePoint& p : d.decode) {
    decode.push_back(Json::Object{{"batch", p.batch},
                                  {"floor", floor_json(p.floor)},
                                  {"tokens_per_s", p.tokens_per_s},
                                  {"tokens_per_s_with_prefill", p.sustained}});
  }
  for (const PrefillPoint& p : d.prefill) {
    prefill.push_back(Json::Object{
        {"tokens", p.tokens}, {"floor", floor_json(p.floor)}, {"tokens_per_s", p.tokens_per_s}});
  }
  for (const LayoutChoice& c : r.layouts) {
    layouts.push_back(Json::Object{{"layout", layout_json(c.layout)},
                                   {"step_seconds_at_batch_1", c.latency},
                                   {"tokens_per_s_with_prefill", c.tokens_per_s},
                                   {"batch", c.batch}});
  }
  for (const std::string& sentence : r.advice) advice.push_back(sentence);
  return Json::Object{{"model", o.model},
                      {"format", o.format},
                      {"device", std::string(o.device.name)},
                      {"device_memory", o.device.memory},
                      {"device_source", std::string(o.device.source)},
                      {"count", o.count},
                      {"layout", layout_json(o.layout)},
                      {"fits", d.fits},
                      {"limit", d.limit},
                      {"max_model_len", d.max_model_len},
                      {"weight_bytes", d.rank.weight_bytes()},
                      {"weight_bytes_in_all", d.all_weights},
                      {"weight_bytes_by_role", roles},
                      {"weight_bytes_replicated", d.rank.replicated},
                      {"activation_bytes", d.rank.working_bytes() - d.rank.step.graphs},
                      {"graph_bytes", d.rank.step.graphs},
                      {"cache_bytes", d.cache},
                      {"cache_bytes_per_token", d.bytes_per_token},
                      {"cache_tokens", d.cache_tokens},
                      {"contexts", contexts},
                      {"decode", decode},
                      {"prefill", prefill},
                      {"layouts", layouts},
                      {"advice", advice}};
}

}  // namespace glint
