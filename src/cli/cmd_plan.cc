// glint plan: what a model takes on given devices and how fast it could be there, without weights.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/ceil_div.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/backends.h"
#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/launch_text.h"
#include "cli/model_options.h"
#include "cli/option_checks.h"
#include "cli/rank_options.h"
#include "cli/serve_plan.h"
#include "plan/known_models.h"
#include "plan/report.h"
#include "runtime/serve_memory.h"

namespace glint {
namespace {

struct DeviceOptions : LayoutOptions {
  std::string device = "h200";
  std::optional<int> count;
  std::optional<double> gpu_memory_utilization, mem_fraction_static;
  std::string kv_cache_memory;

  DeviceOptions() { tp = 0; }  // to be settled

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Devices");
    v("device=NAME", device,
      "h100, h200, b100, b200, gb200, b300, gb300, rtx-pro-6000, rtx-5090 or cpu (this machine)");
    v("count=N", count,
      "devices; of --device cpu, machines of this size (default: 8, or as many as divide "
      "the heads; cpu: 1, with --k8s and --slurm one for each rank)");
    v("gpu-memory-utilization=X", gpu_memory_utilization,
      "share of a device's memory for weights, activations and cache (default: 0.9)");
    v("mem-fraction-static=X", mem_fraction_static,
      "share of a device's memory for weights and cache");
    v("kv-cache-memory=BYTES", kv_cache_memory, "exactly this much cache on each device");
    LayoutOptions::visit(
        v, {.names_of_tp = "tp,tensor-parallel-size=N",
            .tp = "ranks that divide each matrix (default: the devices that dp and pp leave; 1 "
                  "with --ep or --cp alone)",
            .pp = "stages of whole layers",
            .dp = "replicas with sequences and a cache of their own",
            .ep = "ranks among which whole experts are dealt out: 1, or tp x dp; without these, as "
                  "many replicas",
            .cp = "replicas that share each sequence: a divisor of dp, or without it as many "
                  "replicas"});
  }
};

struct LoadOptions {
  std::string dtype = "bf16", kv_dtype = "bf16", index = "fp8";
  std::string max_model_len = "auto";
  int concurrency = 0, max_num_batched_tokens = 8192, drafts = 0;
  int input_len = 2048, output_len = 512;
  std::optional<int> threads = {};

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Load");
    v("dtype", dtype, "what is computed in", {"bf16", "f32"});
    v("kv-dtype", kv_dtype, "KV cache", {"f32", "bf16", "fp8"});
    v("index", index, "index keys", {"exact", "fp8"});
    v("max-model-len=N", max_model_len, "longest context (32k, auto: the model's)");
    v("concurrency=N", concurrency,
      "sequences at once (default: what fits, at most 256 a replica)");
    v("max-num-batched-tokens=N", max_num_batched_tokens, "tokens of one step at most");
    v("drafts=K", drafts, "tokens that the MTP layer guesses a step");
    v("input-len=N", input_len, "tokens of a prompt, for speeds");
    v("output-len=N", output_len, "tokens of an answer, for speeds");
    v("threads,t=N", threads, "threads of --device cpu (default: one per CPU)");
  }
};

struct Options : DeviceOptions, LoadOptions {
  std::string model, format = "auto", html;
  bool json = false, k8s = false, slurm = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, a config.json alone, an id in the Hugging Face cache, or "
      "zai-org/GLM-5[-FP8], whose shapes are known here");
    v("format", format, "format of the weights (default: the model's)",
      {"auto", "bf16", "fp8", "nvfp4"});
    DeviceOptions::visit(v);
    LoadOptions::visit(v);
    v.section("Output");
    v("json", json, "print one JSON object");
    v("html=FILE", html, "also write a page with charts");
    v("k8s", k8s,
      "print a LeaderWorkerSet instead, which serves the model over as many machines as there are "
      "ranks (with --device cpu, of this machine's size), or on the GPUs of one");
    v("slurm", slurm, "print a script for sbatch instead, which does the same");
  }
};

struct Subject {
  std::string model;  // as a server finds it
  ModelConfig config;
  std::string format;
  std::function<WeightFormat(const ModelTensor&)> formats;
};

// None for "auto".
std::optional<Release> release_of(const std::string& format) {
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    if (format == name_of(release)) return release;
  }
  return {};
}

Result<Subject> find_subject(const Options& o, const Cli& cli) {
  Subject s;
  s.model = is_directory(o.model) ? std::filesystem::absolute(o.model).string() : o.model;
  std::optional<Release> release = release_of(o.format);
  const bool is_here = file_exists(o.model) || is_directory(o.model);
  if (const auto known = is_here ? std::nullopt : find_known_model(o.model)) {
    s.model = known->id;
    s.config = known->config;
    if (!release) release = known->release;
  } else {
    std::string path = o.model;
    if (!o.model.ends_with(".json") || !file_exists(o.model)) {
      GLINT_TRY(path, model_dir(o.model, cli, ModelPart::kConfig));
    }
    GLINT_TRY_STATUS(check_apart({{"MODEL", path}}, {{"--html", o.html}}));
    GLINT_TRY(OpenedModel opened,
              open_model(path, release ? ModelFiles::kConfig : ModelFiles::kIfStored));
    if (o.drafts > 0 && !opened.has_mtp()) {
      return invalid(str("--drafts ", o.drafts, " needs the MTP layer, which ",
                         quoted_path(o.model), " does not have; leave it out"));
    }
    s.config = opened.config;
    if (opened.checkpoint) {
      s.formats = formats_of(s.config, *opened.checkpoint);
      s.format = "the checkpoint's formats";
      return s;
    }
    if (!release) release = release_of(s.config);
    if (!release) {
      return invalid(str(quoted_path(o.model), " is quantised as ", quoted(s.config.quantization),
                         ", which is none of fp8 and nvfp4; plan its weights in a format that "
                         "--format names"));
    }
  }
  s.format = name_of(*release);
  s.formats = [release = *release, config = s.config](const ModelTensor& tensor) {
    return format_in(release, tensor, config);
  };
  return s;
}

// The layout that a server would have; tp 0: not settled yet.
MeshShape layout_of(const Options& o) {
  LayoutOptions asked = o;
  if (asked.tp == 0) asked.tp = 1;
  MeshShape layout = asked.shape();
  if (o.tp == 0 && layout.dp == o.dp) layout.tp = 0;
  return layout;
}

Status check_ranges(const Options& o) {
  GLINT_TRY_STATUS(check_range("count", o.count.value_or(1), 1, 1024));
  MeshShape layout = layout_of(o);
  if (layout.tp == 0) layout.tp = 1;
  GLINT_TRY_STATUS(check_sizes(layout));
  GLINT_TRY_STATUS(check_range("input-len", o.input_len, 1, 1 << 20));
  GLINT_TRY_STATUS(check_range("output-len", o.output_len, 1, 1 << 20));
  GLINT_TRY_STATUS(check_range("drafts", o.drafts, 0, kMostDrafts));
  GLINT_TRY_STATUS(check_range("concurrency", o.concurrency, 0, 65536));
  GLINT_TRY_STATUS(check_range("max-num-batched-tokens", o.max_num_batched_tokens, 64, 1 << 20));
  for (const auto& [name, share] : {std::pair("gpu-memory-utilization", o.gpu_memory_utilization),
                                    std::pair("mem-fraction-static", o.mem_fraction_static)}) {
    if (share && !(*share > 0 && *share <= 1))
      return invalid(str("--", name, " is ", *share, "; it must be above 0 and at most 1"));
  }
  if (o.threads && o.device != "cpu")
    return invalid(str("--threads is for --device cpu; leave it out for ", o.device));
  if (o.gpu_memory_utilization && o.mem_fraction_static) {
    return invalid("--gpu-memory-utilization and --mem-fraction-static exclude each other");
  }
  if (!o.kv_cache_memory.empty() && (o.gpu_memory_utilization || o.mem_fraction_static)) {
    return invalid(
        str("--kv-cache-memory says how large the cache is, and ",
            o.gpu_memory_utilization ? "--gpu-memory-utilization" : "--mem-fraction-static",
            " does, too; leave one out"));
  }
  return Ok{};
}

// A server's own memory beside the model's: bodies of requests, grammars, the program. A rank on a
// GPU has as much of the host's, for CUDA and what is pinned: mapped weights are given back.
constexpr std::int64_t kOwnMemory = std::int64_t{2} << 30;

Status check_launch(const Options& o) {
  if (!o.k8s && !o.slurm) return Ok{};
  if (o.k8s && o.slurm) return invalid("--k8s and --slurm exclude each other");
  if (o.json) return invalid("--json prints the plan; leave it out, or --k8s and --slurm");
  if (o.format != "auto")
    return invalid("--format plans weights that a server would not find; leave it out");
  if (file_exists(o.model))
    return invalid(str("MODEL ", quoted_path(o.model),
                       " is a file, of which no server can be made; name its directory or an id"));
  return Ok{};
}

// A plan as words of `glint serve`, without those that it would have by itself.
std::vector<std::string> words_of(const Options& o, const Deployment& plan) {
  const DeploymentOptions& d = plan.options;
  std::vector<std::string> words;
  const auto add = [&](bool is_other, const char* name, const auto& value) {
    if (is_other) words.insert(words.end(), {name, str(value)});
  };
  for (const auto& [name, ranks] : {std::pair("--tp", d.layout.tp), std::pair("--dp", d.layout.dp),
                                    std::pair("--ep", d.layout.ep), std::pair("--cp", d.layout.cp),
                                    std::pair("--pp", d.layout.pp)})
    add(ranks != 1, name, ranks);
  add(d.layout.reduce_slices != 0, "--reduce-slices", d.layout.reduce_slices);
  add(o.dtype != "bf16", "--dtype", o.dtype);
  add(o.kv_dtype != o.dtype, "--kv-dtype", o.kv_dtype);
  add(o.index != index_of({.dtype = o.dtype}), "--index", o.index);
  add(d.max_model_len != 0, "--max-model-len", d.max_model_len);
  add(true, "--max-num-seqs", plan.all_running());
  add(true, "--max-num-batched-tokens", o.max_num_batched_tokens);
  add(o.drafts != 0, "--spec", str("mtp:", o.drafts));
  add(o.threads.has_value(), "--threads", o.threads.value_or(0));
  // On a CPU a share would be one of the limit that the launch sets, not of the machine.
  const bool by_size = d.cache_bytes || o.device == "cpu";
  add(by_size, "--kv-cache-memory", plan.cache);
  add(!by_size && o.gpu_memory_utilization, "--gpu-memory-utilization", d.memory_share);
  add(!by_size && d.share_is_static, "--mem-fraction-static", d.memory_share);
  return words;
}

// The plan with no more cache than its sequences can fill, which a server takes of a share, too.
Deployment with_useful_cache(Deployment plan) {
  const std::int64_t pages =
      useful_pages(plan.max_model_len, plan.max_running * plan.options.layout.cp);
  plan.cache = std::min(plan.cache, pages * plan.rank.page);
  return plan;
}

// "it to 16 and --ep to 16", by which the layout has as many devices as it needs; empty if the
// model cannot be divided so.
std::string settings_of_count(const ModelConfig& config, MeshShape layout) {
  std::string settings = str("it to ", layout.num_ranks());
  const int stage = layout.tp * layout.dp;
  if (layout.ep != 1 && layout.ep != stage) {
    layout.ep = stage;
    settings += str(" and --ep to ", stage);
  }
  return plan_partition(config, layout, 0).ok() ? settings : "";
}

// Where tp is open, divides the heads among the devices that dp and pp leave: all that were asked
// for, or else as many as can.
Status settle_tp(const Options& o, const ModelConfig& config, DeploymentOptions& d) {
  const std::int64_t heads = config.num_attention_heads;
  const int others = d.layout.dp * d.layout.pp;
  const int left = d.layout.tp ? 1 : std::max(1, d.count / others);
  int tp = left;
  while (heads % tp) --tp;
  if (o.count && tp != left) {
    MeshShape all = d.layout, fewer = d.layout;
    all.tp = static_cast<int>(std::gcd(d.count / all.pp, heads));
    fewer.tp = tp;
    std::vector<std::string> ways = {settings_of_count(config, fewer),
                                     settings_of_dp(config, all, d.count)};
    std::erase(ways, "");
    if (ways.empty()) ways = {"--tp to a divisor of them"};
    return invalid(str("--count is ", d.count, ", which leaves ", left,
                       " ranks to divide the model's ", heads, " heads evenly; set ",
                       joined(ways, ", or ")));
  }
  d.layout.tp = tp;
  if (!o.count && o.device != "cpu") d.count = tp * others;
  return Ok{};
}

Status run(const Options& o, Cli& cli) {
  GLINT_TRY_STATUS(check_ranges(o));
  GLINT_TRY_STATUS(check_launch(o));
  const bool launches = o.k8s || o.slurm;
  const bool on_gpus = o.device != "cpu";
  DeploymentOptions d = {.model = o.model, .layout = layout_of(o)};
  const int ranks = launches ? std::max(o.tp, 1) * d.layout.dp * d.layout.pp : 1;
  d.count = o.count.value_or(on_gpus ? 8 : ranks);
  const std::optional<DeviceModel> device = find_device(o.device);
  if (!device) {
    return invalid(str("--device ", quoted(o.device), " is not known; use ", device_names()));
  }
  d.device = *device;
  GLINT_TRY(const Subject subject, find_subject(o, cli));
  if (!o.tp) GLINT_TRY_STATUS(settle_tp(o, subject.config, d));
  const int machines = ceil_div(d.count, d.device.per_machine);
  if (launches && d.count % machines != 0) {
    return invalid(
        str("--count is ", d.count, ", and a host has up to ", d.device.per_machine, " ",
            d.device.product, ": ", machines, " hosts cannot have equally many; set it to ",
            (d.count / machines + 1) * machines, ", and --tp, --dp and --pp to a product of that"));
  }
  d.format = subject.format;
  d.formats = subject.formats;
  d.numbers = number_formats(o.dtype, o.kv_dtype, o.index);
  d.max_drafts = o.drafts;
  GLINT_TRY(d.max_model_len, parse_length(o.max_model_len));
  d.concurrency = o.concurrency;
  d.step_tokens = o.max_num_batched_tokens;
  d.max_logprobs = max_logprobs(ServeOptions(), subject.config);
  d.input_len = o.input_len, d.output_len = o.output_len;
  d.share_is_static = o.mem_fraction_static.has_value();
  d.memory_share = o.mem_fraction_static.value_or(o.gpu_memory_utilization.value_or(0.9));
  if (!o.kv_cache_memory.empty()) {
    GLINT_TRY(d.cache_bytes, parse_bytes(o.kv_cache_memory).in("--kv-cache-memory"));
  }
  std::unique_ptr<Backend> backend;
  if (o.device == "cpu") {
    GLINT_TRY(const int threads, resolve_threads(o.threads, cli.environment));
    GLINT_TRY(backend, make_backend({.name = "cpu", .cpu_isa = "auto", .threads = threads}));
    d.program.like = backend.get();
  }
  GLINT_TRY(const PlanReport report, make_report(subject.config, d));
  if (!o.html.empty()) {
    GLINT_TRY_STATUS(write_file_atomic(o.html, to_html(report)));
  }
  cli.failed = !report.deployment.fits;
  if (launches) {
    if (cli.failed) {
      cli.console.note(str("It does not fit: ", report.deployment.limit, "."));
      for (const std::string& advice : report.advice) cli.console.note("  " + advice);
      return Ok{};
    }
    const bool is_cut = !on_gpus && !d.cache_bytes;
    const Deployment plan = is_cut ? with_useful_cache(report.deployment) : report.deployment;
    const int gpus = on_gpus ? d.count / machines : 0;
    const LaunchText launch = {.model = subject.model,
                               .words = words_of(o, plan),
                               .machines = machines,
                               .memory = kOwnMemory + (on_gpus ? kOwnMemory * gpus : plan.used()),
                               .gpus = gpus};
    cli.console.print(o.k8s ? kubernetes_manifest(launch) : slurm_script(launch));
    return Ok{};
  }
  cli.console.print(o.json ? dump_json(to_json(report), JsonStyle::kIndent2) + "\n"
                           : to_text(report));
  return Ok{};
}

}  // namespace

Command plan_command() {
  return make_command<Options>(
      {.name = "plan",
       .group = "Checkpoints",
       .summary = "what a model takes on given devices, and how fast it could be",
       .description =
           "Runs the model's own code over ops that compute nothing and memory that is only "
           "counted: weights by role, cache, activations of each device, the context and "
           "concurrency that fit, the least time of steps (the roofline), the best layouts, and "
           "what would fit if this does not (exit code 1). No weights are read.",
       .examples =
           {{"glint plan zai-org/GLM-5-FP8 --device b200 --count 8", "eight B200"},
            {"glint plan zai-org/GLM-5 --format nvfp4 --device b200 --count 4 --html p.html",
             "another format, with charts"},
            {"glint plan models/glm5-tiny --device cpu", "this machine"},
            {"glint plan models/glm5-tiny --device cpu --tp 2 --slurm > serve.sbatch",
             "a server over two such machines"}}},
      run);
}

}  // namespace glint
