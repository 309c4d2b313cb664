#include "cli/hub_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/hub_id.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/progress.h"
#include "base/str.h"
#include "checkpoint/model_dir.h"
#include "checkpoint/shard.h"
#include "cli/interrupt.h"

namespace glint {
namespace {

constexpr std::size_t kMaxIndex = std::size_t{256} << 20;

// Weights in other formats than ours, and second copies of them, stay at the hub.
std::vector<std::string> unread() {
  return {"*.bin", "*.pt", "*.pth", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "*.ot", "original/*"};
}

std::vector<std::string> read_as_text() {
  return {"*.json", "*.jinja", "*.model", "*.txt", "*.yaml"};
}

// An id with an owner, and neither a file of that name nor a folder in which it was looked for.
bool may_be_at_hub(const std::string& model) {
  return is_hub_id(model) && !is_present(model.substr(0, model.find('@'))) &&
         !is_directory(model.substr(0, model.find('/')));
}

// With a bar on stderr, after looking at the room on the disk.
Result<std::string> fetch(HubOptions options, PullRequest request, const Cli& cli) {
  const std::string id = request.repository.id;
  GLINT_TRY(HubClient hub, HubClient::open(std::move(options)));
  GLINT_TRY(const PullPlan plan, plan_pull(hub, std::move(request)));
  GLINT_TRY_STATUS(check_room(plan));
  if (!plan.jobs.empty())
    cli.console.note(str("fetching ", plan.jobs.size(), " of ",
                         counted(std::ssize(plan.files), "file"), " of ", id, " (",
                         human_bytes(plan.missing_bytes), " of ", human_bytes(plan.total_bytes),
                         ") to ", plan.folder));
  auto progress = std::make_unique<Progress>(
      "fetching " + id, std::max<std::int64_t>(plan.missing_bytes, 1), Progress::Unit::kBytes);
  Status done = run_pull(hub, plan, [&](std::int64_t bytes) { progress->add(bytes); });
  progress.reset();  // erases the bar before anything else is printed
  if (!done.ok()) return std::move(done).take_error().in("fetching " + id);
  return plan.folder;
}

// As weights are read without an index. Files that count themselves ("-00001-of-00004") are all
// there, or the index is still to come.
bool holds_weights(const std::string& dir) {
  std::int64_t found = 0, counted = 0;
  std::error_code error, none;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".safetensors") || !it->is_regular_file(none)) continue;
    if (name == "model.safetensors") return true;
    ++found;
    if (const std::size_t at = name.rfind("-of-"); at != name.npos) {
      const auto count = parse_number<std::int64_t>(split(name.substr(at + 4), '.')[0]);
      counted = std::max(counted, count.value_or(0));
    }
  }
  return found > 0 && found >= counted;
}

bool lacks(const std::string& dir, ModelPart part) {
  const auto none = [&](const char* file) { return !file_exists(dir + "/" + file); };
  switch (part) {
    case ModelPart::kAll:
      return none("tokenizer.json") || lacks(dir, ModelPart::kWeights);
    case ModelPart::kText:
      return none("tokenizer.json") || none("config.json");
    case ModelPart::kWeights:
      return none("config.json") || lacks_weights(dir);
    case ModelPart::kConfig:
      return none("config.json");
    case ModelPart::kTokenizer:
      return none("tokenizer.json");
    case ModelPart::kTemplate:
      return none("tokenizer_config.json");
  }
  return false;
}

}  // namespace

bool lacks_weights(const std::string& dir) {
  const std::string index = str(dir, "/", kShardIndexName);
  if (!file_exists(index)) return !holds_weights(dir);
  const Result<std::string> text = read_file(index, kMaxIndex);
  const Result<Json> json = text.ok() ? parse_json(text.value()) : Result<Json>(text.error());
  const Json* map = json.ok() ? json.value().find("weight_map") : nullptr;
  if (!map || !map->is_object()) return false;  // whoever reads it says what is wrong
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->as_object()) {
    if (file.is_string()) files.insert(file.as_string());
  }
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return !file_exists(dir + "/" + file); });
}

HubOptions hub_options(const Cli& cli) {
  HubOptions out = {.token = cli.environment.hf_token};
  if (!cli.environment.hf_endpoint.empty()) out.endpoint = cli.environment.hf_endpoint;
  return out;
}

Result<std::string> pull(HubOptions options, PullRequest request, const Cli& cli) {
  const InterruptGuard guard;
  options.interrupted = [&guard] { return guard.interrupted(); };
  Result<std::string> folder = fetch(std::move(options), std::move(request), cli);
  if (!folder.ok() && guard.interrupted()) {
    cli.console.note("stopped; the same command goes on from here");
    end_program(interrupted_exit_code());
  }
  return folder;
}

Result<std::string> model_dir(const std::string& model, const Cli& cli, ModelPart part) {
  Result<std::string> here = resolve_model(model, cli.environment.hf_hub_cache);
  const bool lacking = here.ok() && may_be_at_hub(model) && lacks(here.value(), part);
  const bool absent =
      !here.ok() && here.error().code == ErrorCode::kNotFound && may_be_at_hub(model);
  if (!lacking && !absent) return here;
  if (cli.environment.hf_offline) {
    if (lacking) return here;  // whoever reads it says what is missing
    return not_found(str(std::move(here).take_error().message,
                         "; HF_HUB_OFFLINE is set: unset it, or run `glint pull ", model,
                         "` where there is a network"));
  }
  GLINT_TRY(Repository repository, parse_repository(model, "model", ""));
  PullRequest request = {.repository = std::move(repository),
                         .cache_dir = cli.environment.hf_hub_cache};
  if (part == ModelPart::kAll || part == ModelPart::kWeights) {
    request.exclude = unread();
  } else {
    request.include = read_as_text();
  }
  return pull(hub_options(cli), std::move(request), cli).in(quoted_path(model) + " is not here");
}

}  // namespace glint
