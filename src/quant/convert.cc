#include "quant/convert.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/ceil_div.h"
#include "base/directory.h"
#include "base/directory_lock.h"
#include "base/disk_space.h"
#include "base/file.h"
#include "base/str.h"
#include "base/system_error.h"
#include "base/thread_pool.h"
#include "base/worker.h"
#include "checkpoint/other_files.h"
#include "model/inventory.h"
#include "quant/descriptors.h"
#include "quant/output_plan.h"
#include "quant/source_identity.h"
#include "quant/xxh128.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

// Counts changes of what a recipe means in bytes: shards of older programs are not continued.
constexpr int kEncodingVersion = 1;
// The times are for telling whether to go on; the result does not depend on them.
constexpr std::string_view kTimes = "source_times_xxh128";

constexpr std::size_t kMostManifest = std::size_t{256} << 20;  // bytes
constexpr MoveOrder kMoveOrder = {.first = kManifestName, .last = "config.json"};

// True if the name of everything in `dir` begins with `prefix`.
bool holds_only(const std::string& dir, std::string_view prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (!entry.path().filename().string().starts_with(prefix)) return false;
  }
  return !error;
}

std::int64_t bytes_on_disk(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? std::int64_t{info.st_blocks} * 512 : 0;
}

// A part of a job, for people.
std::string said(std::string_view key) {
  if (key == kTimes) return "source, written since,";
  if (key == "source_xxh128") return "source";
  if (key == "calibration_xxh128") return "calibration";
  if (key == "heads_xxh128") return "division into files (--max-shard-mb)";
  return std::string(key);
}

}  // namespace

struct Conversion::State {
  explicit State(const ConversionOptions& given) : options(given) {
    options.source = without_slashes(options.source);
    options.out = absolute_name(options.out);
    partial = options.out + ".partial";
  }

  Status open_source();
  Status check_other_files() const;
  Status check_complete();
  Status check_stored_formats(const Inventory& inventory);
  Status plan();
  void keep_unseen_of_output();
  Status describe_job();
  Status look_for_earlier_run();
  // Without what half shards of a killed run hold, whose room is taken again.
  std::int64_t bytes_to_write() const;
  std::span<const TensorSpec> specs_of(const Shard& shard) const {
    return std::span(output.specs).subspan(shard.begin, shard.end - shard.begin);
  }
  std::size_t first_unit(const Shard& shard) const;
  void read_ahead(std::size_t unit);
  // Encodes a shard into the file beside its name; complete_shard() makes it a finished one.
  struct Written {
    ShardFile file;
    FinishedShard entry;
  };
  Result<Written> write_shard(const Shard& shard, UnitEncoder& encoder, const BytesDone& done);
  Status complete_shard(Written written);
  Status make_shards(UnitEncoder& encoder, const BytesDone& done);
  Status save_manifest() const;
  Status add_other_files() const;
  Status finish();

  ConversionOptions options;
  std::string partial;
  Json config_json;
  std::string config_text;
  ModelConfig config;
  std::optional<Checkpoint> checkpoint;
  std::vector<ModelTensor> table;
  std::vector<bool> quantized;
  std::optional<ActivationRanges> ranges;
  std::vector<std::string> unseen, unused;
  OutputPlan output;
  std::vector<Shard> shards;
  std::optional<Descriptors> descriptors;
  Manifest manifest;
  DirectoryLock lock;
  bool is_complete = false;      // an earlier run was killed while its files moved to OUT
  std::size_t next_ahead = 0;    // the first unit that the kernel was not asked to read
  std::int64_t bytes_ahead = 0;  // of those before it that are not encoded yet
};

Status Conversion::State::open_source() {
  const std::string path = options.source + "/config.json";
  GLINT_TRY(config, read_config(path));
  GLINT_TRY(config_text, read_file(path));
  GLINT_TRY(config_json, read_json_file(path));
  GLINT_TRY(checkpoint, Checkpoint::open(options.source));
  GLINT_TRY_STATUS(check_other_files());
  return check_complete();
}

// Opens what is going to be copied: a tokenizer that is a link to nothing or a git-lfs pointer is
// known before the work, not after it.
Status Conversion::State::check_other_files() const {
  for (const std::string& name : files_to_copy(options.source)) {
    GLINT_TRY_STATUS(MappedFile::open(str(options.source, "/", name)));
  }
  return Ok{};
}

Status Conversion::State::check_complete() {
  GLINT_TRY(Inventory inventory, take_inventory(config, *checkpoint));
  GLINT_TRY_STATUS(inventory.check_complete(options.source, true));
  if (options.recipe.mtp == MtpChoice::kConvert && !inventory.has_mtp) {
    // Asked for or not: there is nothing to convert, and nothing is half done.
    options.recipe.mtp = MtpChoice::kExclude;
  }
  table = model_tensors(config, checkpoint->source());
  unused = std::move(inventory.extra);
  return check_stored_formats(inventory);
}

Status Conversion::State::check_stored_formats(const Inventory& inventory) {
  const auto packed = std::find_if(
      inventory.rows.begin(), inventory.rows.end(),
      [](const Inventory::Row& row) { return row.format == "fp8" || row.format == "nvfp4"; });
  const bool is_quantized = packed != inventory.rows.end();
  if (options.recipe.format == TargetFormat::kBf16) {
    if (is_quantized) return Ok{};
    return invalid(str(options.source, " is not quantised; there is nothing to bring to bf16"));
  }
  if (!is_quantized) return Ok{};
  return invalid(str(options.source, " is already quantised (", packed->format, " in its ",
                     name_of(packed->role), "); quantise the original, or make it bf16 first"));
}

Status Conversion::State::plan() {
  if (options.recipe.format != TargetFormat::kBf16) {
    GLINT_TRY(quantized, choose_quantized(options.recipe, config, table));
  }
  if (!options.calibration.empty()) {
    GLINT_TRY(ranges, read_activation_ranges(options.calibration));
    unseen = fill_unseen_experts(*ranges);
  }
  const PlanInput input = {.config = config,
                           .recipe = options.recipe,
                           .table = table,
                           .quantized = quantized,
                           .ranges = ranges ? &*ranges : nullptr};
  GLINT_TRY(output, plan_output(input, *checkpoint));
  keep_unseen_of_output();
  shards = plan_shards(output.specs, options.max_shard_bytes, output.unit_begins());
  GLINT_TRY(descriptors, make_descriptors(config_json, config, options.recipe, table, quantized));
  return Ok{};
}

// The calibration ran all experts, those too that stay as they are.
void Conversion::State::keep_unseen_of_output() {
  std::set<std::string_view> scaled;
  for (const Unit& unit : output.units) {
    if (unit.kind != UnitKind::kNvfp4) continue;
    for (const UnitWeight& weight : unit.weights) scaled.insert(weight.name);
  }
  std::erase_if(unseen, [&](const std::string& name) { return !scaled.contains(name); });
}

Status Conversion::State::describe_job() {
  Hasher heads;
  for (const Shard& shard : shards) {
    heads.add(shard_head(specs_of(shard)));
  }
  manifest.job = Json::Object{
      {"encoding_version", kEncodingVersion},
      {"recipe", to_json(options.recipe)},
      {"source_xxh128", source_fingerprint(checkpoint->source(), config_text)},
      {std::string(kTimes), source_times(checkpoint->source())},
      {"calibration_xxh128", nullptr},
      {"heads_xxh128", heads.hex()},
  };
  if (ranges) {
    GLINT_TRY(const std::string hash, hash_file(options.calibration));
    manifest.job.set("calibration_xxh128", hash);
    manifest.job.set("unseen_experts", Json::Array(unseen.begin(), unseen.end()));
  }
  return Ok{};
}

Status Conversion::State::look_for_earlier_run() {
  if (!is_present(partial)) return Ok{};
  // Before what is there is read: another run may write it.
  if (is_directory(partial)) GLINT_TRY_STATUS(lock.lock(partial));
  is_complete = is_half_moved(partial, options.out, kMoveOrder);
  const std::string path = str(is_complete ? options.out : partial, "/", kManifestName);
  const auto not_ours = [&](const std::string& why) {
    // Removing OUT.partial would lose files that OUT lacks.
    return invalid(is_complete
                       ? str(options.out, " and ", partial,
                             " hold a result that was being moved, and not of this job: ", why,
                             "; complete it by its own command, or choose another OUT")
                       : str(partial, " is not a half-finished run of this job: ", why,
                             "; remove it, or choose another OUT"));
  };
  // Killed before its manifest was there: nothing was written.
  if (!file_exists(path) && holds_only(partial, kManifestName)) return Ok{};
  if (!is_present(path)) return not_ours("it has no manifest");
  GLINT_TRY(const std::string text, read_file(path, kMostManifest));
  const Result<Json> json = parse_json(text);
  if (!json.ok()) return not_ours("its manifest is no JSON");
  Result<Manifest> earlier = parse_manifest(json.value());
  if (!earlier.ok()) return not_ours(earlier.error().message);
  for (const auto& [key, value] : manifest.job.as_object()) {
    const Json* before = earlier.value().job.find(key);
    if (!before && key == kTimes) continue;  // it was about to be renamed
    if (!before || *before != value) return not_ours(str("its ", said(key), " differs"));
  }
  if (is_complete) {
    manifest = std::move(earlier).value();
    return Ok{};
  }
  for (FinishedShard& shard : earlier.value().shards) {
    const bool is_planned = std::any_of(shards.begin(), shards.end(),
                                        [&](const Shard& s) { return s.name == shard.name; });
    if (is_planned && file_exists(str(partial, "/", shard.name))) {
      manifest.shards.push_back(std::move(shard));
    }
  }
  return Ok{};
}

std::int64_t Conversion::State::bytes_to_write() const {
  if (is_complete) return 0;
  constexpr std::int64_t kBlock = 4096, kManifestPerShard = 1024;
  std::int64_t bytes = 0;
  const auto add = [&](std::int64_t size) { bytes += round_up(size, kBlock); };
  for (const Shard& shard : shards) {
    if (manifest.find(shard.name)) continue;
    const std::string path = str(partial, "/", shard.name);
    add(shard.data_bytes + std::ssize(shard_head(specs_of(shard))));
    bytes -= bytes_on_disk(path) + bytes_on_disk(path + ".tmp");
  }
  for (const std::string& name : files_to_copy(options.source)) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(str(options.source, "/", name), error);
    if (!error) add(static_cast<std::int64_t>(size));
  }
  add(std::ssize(config_text));
  if (shards.size() > 1) add(std::ssize(shard_index(output.specs, shards)));
  add(kManifestPerShard * std::ssize(shards));
  return bytes;
}

std::size_t Conversion::State::first_unit(const Shard& shard) const {
  const auto at =
      std::lower_bound(output.units.begin(), output.units.end(), shard.begin,
                       [](const Unit& unit, std::size_t spec) { return unit.first_spec < spec; });
  return static_cast<std::size_t>(at - output.units.begin());
}

// Before `unit` is encoded: keeps the disk some way ahead of the processors.
void Conversion::State::read_ahead(std::size_t unit) {
  constexpr std::int64_t kAhead = std::int64_t{256} << 20;
  if (next_ahead < unit) {
    next_ahead = unit;
    bytes_ahead = 0;
  }
  for (; next_ahead < output.units.size() && bytes_ahead < kAhead; ++next_ahead) {
    for (const StoredTensor* tensor : output.units[next_ahead].stored) {
      const std::size_t size = std::min<std::size_t>(tensor->bytes.size(), kAhead);
      prefetch_pages(tensor->bytes.first(size));
    }
    bytes_ahead += output.units[next_ahead].source_bytes;
  }
  bytes_ahead -= output.units[unit].source_bytes;
}

Result<Conversion::State::Written> Conversion::State::write_shard(const Shard& shard,
                                                                  UnitEncoder& encoder,
                                                                  const BytesDone& done) {
  const std::span<const TensorSpec> specs = specs_of(shard);
  std::vector<std::int64_t> offsets;
  std::int64_t at = 0;
  for (const TensorSpec& spec : specs) {
    offsets.push_back(at);
    at += spec.bytes();
  }
  const std::string path = str(partial, "/", shard.name);
  std::error_code none;
  fs::remove(path, none);  // left by a killed run, or damaged: its room is needed
  GLINT_TRY(ShardFile file, ShardFile::create(path + ".tmp", shard_head(specs), shard.data_bytes));
  Written written = {.file = std::move(file), .entry = {.name = shard.name}};
  const auto write = [&](std::size_t spec, std::int64_t offset, std::span<const std::byte> bytes) {
    return written.file.write(offsets[spec - shard.begin] + offset, bytes);
  };
  for (std::size_t u = first_unit(shard);
       u < output.units.size() && output.units[u].first_spec < shard.end; ++u) {
    read_ahead(u);
    GLINT_TRY_STATUS(encoder.encode(output.units[u], write, written.entry.errors));
    written.file.start_writeback();
    if (done) done(output.units[u].source_bytes);
  }
  return written;
}

Status Conversion::State::complete_shard(Written written) {
  FinishedShard& entry = written.entry;
  const std::string path = str(partial, "/", entry.name), beside = written.file.path();
  GLINT_TRY_STATUS(written.file.finish());
  GLINT_TRY(entry.xxh128, hash_file(beside));
  std::error_code error;
  entry.bytes = static_cast<std::int64_t>(fs::file_size(beside, error));
  if (std::rename(beside.c_str(), path.c_str()) != 0)
    return system_error("cannot rename to", path, errno);
  GLINT_TRY_STATUS(sync_directory(partial));
  manifest.shards.push_back(std::move(entry));
  return save_manifest();
}

// A shard is synced and hashed while the next one is encoded.
Status Conversion::State::make_shards(UnitEncoder& encoder, const BytesDone& done) {
  std::vector<const Shard*> left;
  for (const Shard& shard : shards) {
    if (!manifest.find(shard.name)) left.push_back(&shard);
  }
  Status completed = Ok{};  // of the shard before; the worker's until wait()
  std::optional<Written> written;
  Worker worker;
  for (const Shard* shard : left) {
    Result<Written> next = write_shard(*shard, encoder, done);
    worker.wait();
    GLINT_TRY_STATUS(std::move(completed));
    if (!next.ok()) return std::move(next).take_error();
    written.emplace(std::move(next).value());
    completed = Ok{};
    worker.start([&] { completed = complete_shard(std::move(*written)); });
  }
  worker.wait();
  return completed;
}

Status Conversion::State::save_manifest() const {
  return write_file_atomic(str(partial, "/", kManifestName),
                           dump_json(to_json(manifest), JsonStyle::kIndent2) + "\n");
}

Status Conversion::State::add_other_files() const {
  GLINT_TRY(const OtherFiles others, read_other_files(options.source));
  GLINT_TRY_STATUS(write_other_files(others, partial));
  const auto add = [&](const char* name, const std::string& contents) {
    return write_file_atomic(str(partial, "/", name), contents);
  };
  GLINT_TRY_STATUS(add("config.json", dump_json(descriptors->config, JsonStyle::kIndent2) + "\n"));
  if (descriptors->hf_quant_config) {
    GLINT_TRY_STATUS(add("hf_quant_config.json",
                         dump_json(*descriptors->hf_quant_config, JsonStyle::kIndent2) + "\n"));
  }
  if (shards.size() > 1) {
    GLINT_TRY_STATUS(add(kShardIndexName, shard_index(output.specs, shards)));
  }
  return Ok{};
}

Status Conversion::State::finish() {
  // Removes leftovers of killed runs: half shards, half small files.
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(partial, error)) {
    const std::string name = entry.path().filename().string();
    if (name != kManifestName && !manifest.find(name)) fs::remove(entry.path(), error);
  }
  GLINT_TRY_STATUS(add_other_files());
  std::erase_if(manifest.job.as_object(),
                [](const Json::Member& member) { return member.first == kTimes; });
  GLINT_TRY_STATUS(save_manifest());
  GLINT_TRY_STATUS(sync_directory(partial));
  return rename_directory(partial, options.out, kMoveOrder);
}

Result<Conversion> Conversion::prepare(const ConversionOptions& options) {
  auto state = std::make_unique<State>(options);
  GLINT_TRY_STATUS(state->open_source());
  GLINT_TRY_STATUS(state->plan());
  GLINT_TRY_STATUS(state->describe_job());
  GLINT_TRY_STATUS(state->look_for_earlier_run());
  GLINT_TRY_STATUS(check_free_space(state->options.out, state->bytes_to_write()));
  if (!state->is_complete) GLINT_TRY_STATUS(check_directory_name(state->options.out));
  return Conversion(std::move(state));
}

Conversion::Conversion(std::unique_ptr<State> state) : state_(std::move(state)) {}
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion::~Conversion() = default;

std::size_t Conversion::num_finished() const { return state_->manifest.shards.size(); }
std::size_t Conversion::num_shards() const { return state_->shards.size(); }
const std::vector<std::string>& Conversion::unseen_experts() const { return state_->unseen; }
const std::vector<std::string>& Conversion::unused_tensors() const { return state_->unused; }
const Manifest& Conversion::manifest() const { return state_->manifest; }

std::int64_t Conversion::finished_bytes() const {
  std::int64_t bytes = 0;
  for (const FinishedShard& shard : state_->manifest.shards) bytes += shard.bytes;
  return bytes;
}

Status Conversion::check_finished(const BytesDone& done) {
  const bool is_complete = state_->is_complete;
  std::vector<FinishedShard> good;
  for (FinishedShard& shard : state_->manifest.shards) {
    std::string path = str(state_->partial, "/", shard.name);
    if (is_complete && !is_present(path)) path = str(state_->options.out, "/", shard.name);
    const Result<std::string> hash = hash_file(path, done);
    const bool is_good = hash.ok() && hash.value() == shard.xxh128;
    if (is_complete && !is_good) {
      return invalid(str(path, " is missing or has changed since it was finished; empty ",
                         state_->options.out, ", remove ", state_->partial,
                         ", and run the command again"));
    }
    if (!hash.ok()) return hash.error();
    if (is_good) good.push_back(std::move(shard));
  }
  state_->manifest.shards = std::move(good);
  return Ok{};
}

std::int64_t Conversion::bytes_to_write() const { return state_->bytes_to_write(); }

std::int64_t Conversion::bytes_to_read() const {
  std::int64_t bytes = 0;
  for (const Shard& shard : state_->shards) {
    if (state_->manifest.find(shard.name)) continue;
    for (std::size_t u = state_->first_unit(shard);
         u < state_->output.units.size() && state_->output.units[u].first_spec < shard.end; ++u) {
      bytes += state_->output.units[u].source_bytes;
    }
  }
  return bytes;
}

Status Conversion::run(ThreadPool& pool, const BytesDone& done) {
  State& state = *state_;
  GLINT_TRY_STATUS(state.lock.lock(state.partial));
  if (state.is_complete) return rename_directory(state.partial, state.options.out, kMoveOrder);
  GLINT_TRY_STATUS(state.save_manifest());
  UnitEncoder encoder(state.options.recipe, *state.checkpoint, pool);
  GLINT_TRY_STATUS(state.make_shards(encoder, done));
  return state.finish();
}

}  // namespace glint
