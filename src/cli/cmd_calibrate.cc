// glint calibrate: the ranges of activations, for a quantiser.
#include <algorithm>

#include "base/disk_space.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/option_checks.h"
#include "cli/prompt_file.h"
#include "eval/calibrate.h"

namespace glint {
namespace {

struct Options : RunOptions {
  std::vector<std::string> inputs;
  std::string prompts, out = "calibration.json";
  bool merge = false, json = false;
  int chunk = 1024;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", inputs,
      "directory of a checkpoint, or an id in the Hugging Face cache; with --merge the files to "
      "merge");
    v("prompts=FILE", prompts,
      "what to run: a text a line; or JSONL with \"text\", \"messages\" (and \"tools\") or "
      "\"ids\"");
    v("out=FILE", out, "where to write the ranges");
    v("merge", merge,
      "run nothing: read calibrations of the same model and write the larger range of each layer, "
      "tokens added up");
    v("chunk=N", chunk, "tokens per step; the result does not depend on it");
    v("json", json, "print one JSON object");
    RunOptions::visit_running(v);
  }
};

void print_unseen(const ActivationRanges& ranges, Cli& cli) {
  const std::vector<std::string> unseen = describe_unseen_experts(ranges);
  if (unseen.empty()) return;
  cli.console.note(
      "experts that no token reached; quantising gives them the largest range of their layer:");
  for (const std::string& line : unseen) cli.console.note("  " + line);
}

// Layers (not experts) without a token: an MTP layer whose prompts have one token each.
void print_silent_layers(const ActivationRanges& ranges, Cli& cli) {
  std::vector<std::string> names;
  for (const auto& [name, range] : ranges) {
    if (range.tokens == 0 && name.find(".mlp.experts.") == name.npos) names.push_back(name);
  }
  if (!names.empty()) cli.console.note("layers that no token reached: " + joined(names, ", "));
}

void print_summary(const Options& options, const Calibration& result, Cli& cli) {
  const std::size_t unseen = static_cast<std::size_t>(std::count_if(
      result.ranges.begin(), result.ranges.end(), [](const auto& e) { return !e.second.tokens; }));
  if (options.json) {
    Json::Array lines;
    for (std::string& line : describe_unseen_experts(result.ranges)) lines.push_back(line);
    Json summary = Json::Object{{"out", options.out},
                                {"ranges", static_cast<std::int64_t>(result.ranges.size())},
                                {"without_tokens", static_cast<std::int64_t>(unseen)},
                                {"unseen_experts", std::move(lines)}};
    if (!options.merge) {  // which ran nothing
      summary.set("prompts", static_cast<std::int64_t>(result.prompts));
      summary.set("tokens", result.tokens);
    }
    cli.console.print(dump_json(summary) + "\n");
    return;
  }
  cli.console.print(str("wrote ", options.out, ": ", counted(std::ssize(result.ranges), "range"),
                        ", ", unseen, " of them without a token\n"));
}

Status write(const Options& options, const Calibration& result, Cli& cli) {
  GLINT_TRY_STATUS(write_file_atomic(
      options.out, dump_json(to_json(result.ranges), JsonStyle::kIndent2) + "\n"));
  print_unseen(result.ranges, cli);
  print_silent_layers(result.ranges, cli);
  print_summary(options, result, cli);
  return Ok{};
}

Status merge(const Options& options, const OptionList& list, Cli& cli) {
  if (options.inputs.empty()) return invalid("--merge needs the files to merge");
  const std::string own(
      first_of({{"--prompts", !options.prompts.empty()}, {"--chunk", is_given(list, "chunk")}}));
  const std::string given = own.empty() ? first_given<RunOptions>(list) : own;
  if (!given.empty()) return invalid(str("--merge runs nothing; leave ", given, " out"));
  std::vector<NamedPath> read;
  for (const std::string& path : options.inputs) read.push_back({"a file to merge", path});
  GLINT_TRY_STATUS(check_apart(read, {{"--out", options.out}}));
  Calibration merged;
  for (const std::string& path : options.inputs) {
    GLINT_TRY(const ActivationRanges ranges, read_activation_ranges(path));
    if (!merged.ranges.empty()) {
      const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
      if (!std::equal(ranges.begin(), ranges.end(), merged.ranges.begin(), merged.ranges.end(),
                      same_name)) {
        return invalid(str(path, " names other layers than ", options.inputs[0],
                           ": they are calibrations of different models"));
      }
    }
    merge_into(merged.ranges, ranges);
  }
  return write(options, merged, cli);
}

Result<Prompts> prompts_of(const Options& options, const std::string& dir,
                           const ModelConfig& config, Cli& cli) {
  GLINT_TRY(Prompts prompts, read_prompts(PromptFile{.path = options.prompts,
                                                     .dir = dir,
                                                     .max_tokens = config.max_position_embeddings,
                                                     .vocab = config.vocab_size}));
  if (prompts.num_cut > 0) {
    cli.console.note(str(prompts.num_cut, " of the prompts are longer than the model's ",
                         config.max_position_embeddings, " positions and were cut into pieces"));
  }
  return prompts;
}

// Fails if there is no room for the ranges of `config`: they come at the end, when all is computed.
Status check_room(const std::string& path, const ModelConfig& config) {
  constexpr std::int64_t kMostBytes = 128;  // of a range, beside its name
  std::int64_t bytes = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (!tensor.is_quantizable) continue;
    bytes += tensor.num_copies() * (std::ssize(tensor.name) + kMostBytes);
  }
  return check_free_space(path, bytes);
}

Status run_model(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(find_replaceable(options.out));
  GLINT_TRY(const ModelOptions resolved, resolve(options, cli, /*with_mtp=*/true));
  GLINT_TRY_STATUS(check_apart({{"MODEL", resolved.dir}, {"--prompts", options.prompts}},
                               {{"--out", options.out}}));
  GLINT_TRY(OpenedModel opened, open_model(resolved));
  GLINT_TRY_STATUS(check_room(options.out, opened.config));
  GLINT_TRY(const Prompts prompts, prompts_of(options, resolved.dir, opened.config, cli));
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(options, cli));
  DecoratedBackend tapped(std::move(backend));
  TapOps& ops = tapped.decorate<TapOps>();
  GLINT_TRY(const auto model, load_model(resolved, std::move(tapped), cli, std::move(opened)));

  Calibration result;
  {
    const InterruptGuard guard;
    Progress progress("calibrating", count_tokens(prompts.ids), Progress::Unit::kItems);
    const auto report = [&](std::int64_t done) {
      progress.add(done);
      return !guard.interrupted();
    };
    GLINT_TRY(result, calibrate(*model, ops, prompts.ids,
                                {.tokens_per_step = options.chunk, .progress = report}));
  }
  Options written = options;
  const bool unfinished = result.prompts < prompts.ids.size();
  if (unfinished) {
    written.out += ".partial";
    cli.interrupted = true;
    cli.console.note(str("interrupted before the prompt of line ", prompts.lines[result.prompts],
                         "; what ran is in ", written.out,
                         ": calibrate with the rest and combine both with --merge"));
  }
  return write(written, result, cli);
}

Status run(const Options& options, const OptionList& list, Cli& cli) {
  if (options.merge) return merge(options, list, cli);
  if (options.inputs.empty())
    return invalid(
        "MODEL is missing: directory of a checkpoint, or an id in the Hugging Face cache");
  if (options.inputs.size() > 1)
    return invalid(str("expected one MODEL, got ", options.inputs.size(),
                       "; --merge is for files of calibrations"));
  if (options.prompts.empty()) return invalid("--prompts is missing: name a file of prompts");
  GLINT_TRY_STATUS(check_least("chunk", options.chunk, 1));
  Options with_model = options;
  with_model.model = options.inputs[0];
  return run_model(with_model, cli);
}

}  // namespace

Command calibrate_command() {
  return make_command<Options>(
      {.name = "calibrate",
       .group = "Model",
       .summary = "ranges of activations on given prompts, for `glint quantize`",
       .description =
           "Runs prompts through the model, each token through the experts that the model itself "
           "chooses, and writes for every linear layer the largest magnitude of its input and the "
           "number of tokens it saw. The ranges are exact: they do not depend on threads or "
           "chunks, and merged calibrations equal one of all prompts. Experts that no token "
           "reached are listed. After Ctrl-C, SIGTERM or SIGHUP, what ran is in FILE.partial.",
       .examples = {{"glint calibrate models/glm5-tiny --prompts README.md --out /tmp/readme.json",
                     "one pass, a prompt a line"},
                    {"glint calibrate --merge coding.json broad.json deep.json --out all.json",
                     "three passes as one"}}},
      run);
}

}  // namespace glint
