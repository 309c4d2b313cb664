// glint inspect: what a checkpoint is and what it holds.
#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/verify.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "model/inventory.h"
#include "model/kv_store.h"
#include "model/release.h"

namespace glint {
namespace {

struct Options {
  std::string model;
  bool json = false, verify = false;
  std::optional<int> threads = {};

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, an id in the Hugging Face cache, or a config.json alone");
    v("json", json, "print one JSON object");
    v("verify", verify, "also read every value and look for NaN and infinity");
    v("threads,t=N", threads, "threads of --verify (default: OMP_NUM_THREADS, else one per CPU)");
  }
};

// The findings; without weights a config alone.
struct Report {
  std::string path;
  ModelConfig config;
  std::optional<Inventory> inventory;
  std::optional<std::vector<NonFinite>> non_finite;
};

constexpr Release kReleases[] = {Release::kBF16, Release::kFp8, Release::kNvfp4};

// Bytes of one token.
std::int64_t kv_bytes(const Report& report, LatentFormat latent, bool with_mtp) {
  return page_bytes(report.config, {.latent = latent, .with_mtp = with_mtp}) / kPageSize;
}

Json::Array names(const std::vector<std::string>& names) {
  return Json::Array(names.begin(), names.end());
}

Json tensor_rows(const Inventory& inventory) {
  Json::Array rows;
  for (const Inventory::Row& row : inventory.rows) {
    rows.push_back(Json::Object{{"role", name_of(row.role)},
                                {"format", row.format},
                                {"tensors", row.tensors},
                                {"parameters", row.parameters},
                                {"bytes", row.bytes}});
  }
  return rows;
}

Json non_finite_rows(const std::vector<NonFinite>& found) {
  Json::Array rows;
  for (const NonFinite& bad : found) {
    rows.push_back(
        Json::Object{{"tensor", bad.tensor->name}, {"count", bad.count}, {"first", bad.first}});
  }
  return rows;
}

Json to_json(const Report& report) {
  const ModelConfig& config = report.config;
  const ParameterCount count = count_parameters(config);
  Json json = Json::Object{
      {"path", report.path},
      {"model_type", config.model_type},
      {"layers", config.num_hidden_layers},
      {"mtp_layers", config.num_nextn_predict_layers},
      {"unused_mtp_layers", config.num_unused_mtp_layers},
      {"quantization", config.quantization},
      {"parameters", Json::Object{{"main", count.main},
                                  {"mtp", count.mtp},
                                  {"total", count.total()},
                                  {"active", count.active},
                                  {"active_without_lm_head", count.active - count.head}}},
      {"kv_bytes_per_token",
       Json::Object{{"bf16", kv_bytes(report, LatentFormat::kBF16, false)},
                    {"fp8", kv_bytes(report, LatentFormat::kFp8, false)},
                    {"bf16_mtp", kv_bytes(report, LatentFormat::kBF16, true)},
                    {"fp8_mtp", kv_bytes(report, LatentFormat::kFp8, true)}}}};
  Json bytes = Json::Object{};
  for (const Release release : kReleases) {
    bytes.set(name_of(release), release_bytes(config, release, true));
  }
  json.set("weight_bytes_as", std::move(bytes));
  if (const auto& inventory = report.inventory) {
    json.set("bytes", inventory->bytes);
    json.set("has_mtp", inventory->has_mtp);
    json.set("tensors", tensor_rows(*inventory));
    json.set("missing", names(inventory->missing));
    json.set("extra", names(inventory->extra));
    json.set("ignored", names(inventory->ignored));
    json.set("faults", names(inventory->faults));
  }
  if (report.non_finite) json.set("non_finite", non_finite_rows(*report.non_finite));
  return json;
}

std::string line(std::string_view label, const std::string& text) {
  return formatted("%-14s", std::string(label).c_str()) + text + "\n";
}

std::string describe_layers(const ModelConfig& config) {
  int dense = 0, with_indexer = 0;
  for (int i = 0; i < config.num_hidden_layers; ++i) {
    const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    dense += layer.is_dense();
    with_indexer += layer.has_indexer;
  }
  std::string mtp = config.num_nextn_predict_layers ? ", and an MTP layer" : "";
  if (config.num_unused_mtp_layers) {
    mtp += str(" (", config.num_unused_mtp_layers, " more, not used)");
  }
  return str(config.num_hidden_layers, ": ", dense, " dense, ", config.num_hidden_layers - dense,
             " sparse; ", with_indexer, " with an indexer", mtp);
}

std::string describe_model(const ModelConfig& c) {
  const std::string yarn = c.rope.is_yarn() ? str(", yarn factor ", c.rope.factor) : "";
  const std::string groups =
      c.n_group > 1 ? str(" from ", c.topk_group, " of ", c.n_group, " groups") : "";
  const std::string claims =
      c.quantization.empty() ? "" : str(", says it is quantised: ", quoted(c.quantization));
  return line("model", c.model_type + claims) + line("layers", describe_layers(c)) +
         line("hidden", str(c.hidden_size, ", dense mlp ", c.intermediate_size)) +
         line("attention", str(c.num_attention_heads, " heads, q_lora ", c.q_lora_rank,
                               ", kv_lora ", c.kv_lora_rank, ", nope ", c.qk_nope_head_dim,
                               ", rope ", c.qk_rope_head_dim, ", v ", c.v_head_dim)) +
         line("indexer",
              str(c.index_n_heads, " heads of ", c.index_head_dim, ", top ", c.index_topk,
                  c.indexer_rope_interleave ? ", interleaved" : ", half-split", " rope")) +
         line("experts",
              str(c.n_routed_experts, " routed, ", c.num_experts_per_tok, " a token", groups, ", ",
                  c.n_shared_experts, " shared, of ", c.moe_intermediate_size)) +
         line("positions", str(c.max_position_embeddings, ", rope theta ",
                               with_commas(static_cast<std::int64_t>(c.rope.theta)), yarn)) +
         line("vocabulary", str(c.vocab_size));
}

std::string describe_sizes(const Report& report) {
  const ParameterCount count = count_parameters(report.config);
  std::string parameters = with_commas(count.main);
  std::string kv =
      str(with_commas(kv_bytes(report, LatentFormat::kBF16, false)), " bytes in bf16, ",
          with_commas(kv_bytes(report, LatentFormat::kFp8, false)), " in fp8");
  if (count.mtp) {
    parameters += str(", with MTP ", with_commas(count.total()));
    kv += str("; with MTP ", with_commas(kv_bytes(report, LatentFormat::kBF16, true)), " and ",
              with_commas(kv_bytes(report, LatentFormat::kFp8, true)));
  }
  std::string weights;
  for (const Release release : kReleases) {
    weights += str(weights.empty() ? "" : ", ", name_of(release), " ",
                   human_bytes(release_bytes(report.config, release, true)));
  }
  return line("parameters", parameters) +
         line("active", str(with_commas(count.active), " a token, ",
                            with_commas(count.active - count.head), " without lm_head")) +
         line("KV a token", kv) + line("published as", weights);
}

std::string describe_rows(const Inventory& inventory) {
  const auto row = [&](const char* role, const char* format, const std::string& tensors,
                       const std::string& parameters, const std::string& bytes) {
    return formatted("%-15s %-7s %9s %20s %12s\n", role, format, tensors.c_str(),
                     parameters.c_str(), bytes.c_str());
  };
  std::string text = "\n" + row("role", "format", "tensors", "parameters", "size");
  std::int64_t tensors = 0, parameters = 0;
  for (const Inventory::Row& r : inventory.rows) {
    text += row(name_of(r.role), r.format.c_str(), with_commas(r.tensors),
                with_commas(r.parameters), human_bytes(r.bytes));
    tensors += r.tensors;
    parameters += r.parameters;
  }
  return text + row("total", "", with_commas(tensors), with_commas(parameters),
                    human_bytes(inventory.bytes));
}

std::string describe_names(const char* title, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  if (names.empty()) return "";
  std::string text = str("\n", title, ": ", names.size(), "\n");
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += str("  ", quoted(names[i], 400), "\n");
  }
  if (names.size() > kShown) text += str("  and ", names.size() - kShown, " more\n");
  return text;
}

std::string to_text(const Report& report) {
  std::string text = describe_model(report.config) + describe_sizes(report);
  if (!report.inventory) return text + line("weights", "none here");
  const Inventory& inventory = *report.inventory;
  text += describe_rows(inventory);
  if (report.config.num_nextn_predict_layers && !inventory.has_mtp) {
    text += "\nthe MTP layer that the config announces is not there\n";
  }
  text += describe_names("missing", inventory.missing);
  text += describe_names("extra, used by nothing", inventory.extra);
  text += describe_names("known and not needed", inventory.ignored);
  text += describe_names("faulty", inventory.faults);
  if (!report.non_finite) return text;
  std::vector<std::string> bad;
  for (const NonFinite& found : *report.non_finite) {
    bad.push_back(str(found.tensor->name, ": ", found.count, ", the first at ", found.first));
  }
  return text + (bad.empty() ? "\nevery value is a finite number\n"
                             : describe_names("tensors with NaN or infinity", bad));
}

// `checkpoint` may be null: then there are no weights to judge.
Status verdict(const Report& report, const Checkpoint* checkpoint) {
  if (report.inventory) {
    GLINT_TRY_STATUS(report.inventory->check_complete(report.path, false));
  }
  if (checkpoint && report.non_finite && !report.non_finite->empty()) {
    const NonFinite& bad = report.non_finite->front();
    const std::string& file = checkpoint->source().file_name(bad.tensor->file);
    return invalid(str(file, ": tensor ", quoted(bad.tensor->name), " holds ", bad.count,
                       bad.count == 1 ? " value that is" : " values that are",
                       " NaN or infinite; expected finite numbers"));
  }
  return Ok{};
}

Status run(const Options& options, Cli& cli) {
  if (options.threads && !options.verify) return invalid("--threads needs --verify");
  Report report;
  report.path = options.model;
  const bool config_alone = file_exists(options.model);
  if (config_alone && !options.model.ends_with(".json")) {
    return invalid(str(quoted(options.model, 400),
                       " is a file; expected the directory of a checkpoint, or a config.json"));
  }
  if (!config_alone) {
    GLINT_TRY(report.path, model_dir(options.model, cli, ModelPart::kWeights));
  }
  GLINT_TRY(OpenedModel opened, open_model(report.path, ModelFiles::kIfStored));
  report.config = opened.config;
  std::optional<Checkpoint>& checkpoint = opened.checkpoint;
  if (options.verify && !checkpoint) {
    return invalid(str(report.path, " holds no weights that --verify could read"));
  }
  if (checkpoint) {
    GLINT_TRY(report.inventory, take_inventory(report.config, *checkpoint));
  }
  if (options.verify) {
    GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
    ThreadPool pool(threads);
    Progress progress("reading", report.inventory->bytes, Progress::Unit::kBytes);
    report.non_finite = find_non_finite(checkpoint->source(), pool,
                                        [&](std::int64_t bytes) { progress.add(bytes); });
  }
  cli.console.print(options.json ? dump_json(to_json(report), JsonStyle::kIndent2) + "\n"
                                 : to_text(report));
  GLINT_TRY_STATUS(verdict(report, checkpoint ? &*checkpoint : nullptr));
  if (report.inventory) {
    if (Status drafts = report.inventory->check_complete(report.path, true); !drafts.ok())
      cli.console.note(str("warning: no drafts (--spec): ", drafts.error().message));
    note_unused(report.path, report.inventory->extra, cli);
  }
  return Ok{};
}

}  // namespace

Command inspect_command() {
  return make_command<Options>(
      {.name = "inspect",
       .group = "Checkpoints",
       .summary = "what a checkpoint is and what it holds",
       .description =
           "Reads config.json and the headers of the weights, and prints the model's dims, its "
           "parameters, its cache's bytes per token, its tensors by role and format, and what is "
           "missing or extra. Weights that are missing or cannot be used, and with --verify values "
           "that are no number, end it with exit code 2, after the report; a config without any "
           "weights, and a draft layer that lacks some, do not.",
       .examples = {{"glint inspect models/glm5-tiny", "the bundled model"},
                    {"glint inspect models/glm5-tiny/config.json --json",
                     "a model of which only that file is here"}}},
      run);
}

}  // namespace glint
