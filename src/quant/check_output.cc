#include "quant/check_output.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/ceil_div.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/shard.h"
#include "checkpoint/verify.h"
#include "model/inventory.h"
#include "quant/check_descriptors.h"
#include "quant/descriptor_fields.h"
#include "quant/encode.h"
#include "quant/manifest.h"
#include "quant/matchers.h"
#include "quant/xxh128.h"

namespace glint {
namespace {

// Errors of rounding to each format lie far below these; larger ones are damage.
double largest_plausible_error(WeightFormat format) {
  switch (format) {
    case WeightFormat::kNvfp4:
      return 0.05;
    case WeightFormat::kFp8Block:
      return 0.005;
    default:
      return 1e-5;  // the rounding of a product to BF16
  }
}

// A weight moves by up to half a step of its block, however small it is: of the least scale, which
// ue8m0 may double, times the least e4m3 number.
double squared_error_of_least_scale(WeightFormat format) {
  constexpr double kHalfStep = kLeastFp8Amax / 448.0 * 2 * 0x1p-9 / 2;
  return format == WeightFormat::kFp8Block ? kHalfStep * kHalfStep : 0;
}

// True if a number of `scales` has a sign: no quantiser writes one, and kernels that take NVFP4's
// scales as unsigned read another number than those that do not.
bool has_negative(const StoredTensor& scales) {
  if (scales.type == StoredType::kF8E8M0) return false;
  const auto width = static_cast<std::size_t>(bits_of(scales.type) / 8);
  std::byte signs{};
  for (std::size_t at = width - 1; at < scales.bytes.size(); at += width) signs |= scales.bytes[at];
  return (signs & std::byte{0x80}) != std::byte{};
}

class Checker {
 public:
  Checker(const CheckOptions& options, ThreadPool& pool, const CheckProgress& done)
      : options_(options), pool_(pool), done_(done) {}

  Result<OutputCheck> check() {
    GLINT_TRY(config_, read_config(options_.dir + "/config.json"));
    GLINT_TRY(config_json_, read_json_file(options_.dir + "/config.json"));
    GLINT_TRY(const bool lies_beside, add_descriptor_beside(options_.dir, config_json_));
    GLINT_TRY(checkpoint_, Checkpoint::open(options_.dir));
    GLINT_TRY(const Inventory inventory, take_inventory(config_, *checkpoint_));
    out_.bytes = inventory.bytes;
    table_ = model_tensors(config_, checkpoint_->source());
    if (!options_.source.empty()) {
      GLINT_TRY(source_, Checkpoint::open(options_.source));
    }
    check_names(inventory);
    open_weights();
    check_scales();
    check_signs();
    check_pairs();
    GLINT_TRY_STATUS(check_index());
    GLINT_TRY_STATUS(check_descriptors({.dir = options_.dir,
                                        .config_json = config_json_,
                                        .source = checkpoint_->source(),
                                        .table = table_,
                                        .quantized = quantized_,
                                        .lies_beside = lies_beside},
                                       out_));
    GLINT_TRY_STATUS(check_hashes());
    check_values();
    if (source_) GLINT_TRY_STATUS(compare_with_source());
    return std::move(out_);
  }

 private:
  void fault(std::string sentence) { out_.faults.push_back(std::move(sentence)); }

  void faults(const std::vector<std::string>& names, const std::string& what) {
    add_faults(names, what, out_);
  }

  void check_names(const Inventory& inventory) {
    faults(inventory.missing, "is missing");
    std::vector<std::string> extra = inventory.extra;
    std::erase_if(extra, [&](const std::string& name) { return is_copy(name); });
    faults(extra, "belongs to no part of the model");
    for (const std::string& sentence : inventory.faults) fault(sentence);
  }

  // True if there is a source, and it has this very tensor.
  bool is_copy(const std::string& name) const {
    const StoredTensor* was = source_ ? source_->source().find(name) : nullptr;
    const StoredTensor* is = checkpoint_->source().find(name);
    if (!was || was->type != is->type || was->shape != is->shape) return false;
    const bool same = std::equal(was->bytes.begin(), was->bytes.end(), is->bytes.begin());
    for (const StoredTensor* tensor : {was, is}) {
      discard_pages(tensor->bytes);
      if (done_) done_(std::ssize(tensor->bytes));
    }
    return same;
  }

  // Fills out_.tensors, and quantized_ by the first copy of each tensor of the table.
  void open_weights() {
    quantized_.assign(table_.size(), false);
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (!table_[i].is_matrix()) continue;
      for (int expert = 0; expert < table_[i].num_copies(); ++expert) {
        const std::string name = table_[i].name_of_copy(expert);
        const auto found = checkpoint_->format(name, table_[i].rows, table_[i].cols);
        if (!found.ok()) continue;  // told by the inventory
        // FP8 with a scale for each row is handed out as f32.
        const bool is_fp8 = checkpoint_->stored_weight(name)->type == StoredType::kF8E4M3;
        const WeightFormat format = is_fp8 ? WeightFormat::kFp8Block : found.value();
        const bool packed = format == WeightFormat::kNvfp4 || format == WeightFormat::kFp8Block;
        if (expert == 0) quantized_[i] = packed;
        if (packed != quantized_[i]) {
          fault(str(name, " is ", name_of(format), ", unlike the first expert of its layer"));
        }
        entries_.push_back(i);
        out_.tensors.push_back({.name = name,
                                .role = table_[i].role,
                                .format = format,
                                .weights = table_[i].elements(),
                                .error = {}});
      }
    }
  }

  // The value of a scalar tensor; none if it is not there.
  std::optional<float> scalar(const std::string& name) const {
    const StoredTensor* tensor = checkpoint_->source().find(name);
    if (!tensor || tensor->type != StoredType::kF32 || tensor->bytes.size() != 4) return {};
    float value = 0;
    std::memcpy(&value, tensor->bytes.data(), sizeof value);
    return value;
  }

  // The names of scales begin so: all experts of a stack have one tensor of them.
  std::string name_before_scale(const std::string& weight) const {
    const std::string stack = stack_of_experts(weight);
    return checkpoint_->has(stack) && !checkpoint_->has(weight + ".weight") ? stack
                                                                            : weight + ".weight";
  }

  // Under the name that engines look for, which depends on who describes the weights.
  std::string fp8_scale_name(const std::string& weight) const {
    const std::string name = name_before_scale(weight), plain = name + "_scale";
    if (!name.ends_with(".weight")) return name + "_scale_inv";
    const std::string method = quant_method(config_json_);
    const Json* quantization = config_json_.find("quantization_config");
    const bool in_blocks = quantization && find_field(*quantization, "weight_block_size");
    const bool is_plain = method == "compressed-tensors" || method.starts_with("modelopt") ||
                          (!in_blocks && checkpoint_->has(plain));
    return is_plain ? plain : name + "_scale_inv";
  }

  void check_fp8_scale(const std::string& weight, std::vector<std::string>& missing) const {
    const std::string name = fp8_scale_name(weight);
    const StoredTensor* scale = checkpoint_->source().find(name);
    const bool may_be_bf16 = quant_method(config_json_) == "compressed-tensors";
    if (scale && scale->type == StoredType::kF32) return;
    if (scale && scale->type == StoredType::kBF16 && may_be_bf16) return;
    if (missing.empty() || missing.back() != name) missing.push_back(name);  // once for a stack
  }

  void check_scales() {
    const bool with_inputs = rounds_inputs(config_json_);
    std::vector<std::string> missing, bad;
    for (const CheckedTensor& tensor : out_.tensors) {
      if (tensor.format == WeightFormat::kFp8Block) check_fp8_scale(tensor.name, missing);
      if (tensor.format != WeightFormat::kNvfp4) continue;
      const bool modelopt = checkpoint_->has(tensor.name + ".weight");
      std::vector<const char*> suffixes = {modelopt ? ".weight_scale_2" : ".weight_global_scale"};
      if (with_inputs) suffixes.push_back(modelopt ? ".input_scale" : ".input_global_scale");
      for (const char* suffix : suffixes) {
        const std::optional<float> value = scalar(tensor.name + suffix);
        if (!value) {
          missing.push_back(tensor.name + suffix);
        } else if (!(std::isfinite(*value) && *value > 0)) {
          bad.push_back(tensor.name + suffix);
        }
      }
    }
    faults(missing, "is missing, or no F32");
    faults(bad, "is not a positive number");
  }

  void check_signs() {
    std::vector<const StoredTensor*> scales;
    for (const CheckedTensor& tensor : out_.tensors) {
      for (const char* suffix : {"_scale", "_scale_inv"}) {
        const std::string name = name_before_scale(tensor.name) + suffix;
        const StoredTensor* found = checkpoint_->source().find(name);
        if (found && (scales.empty() || scales.back() != found)) scales.push_back(found);
      }
    }
    std::vector<char> negative(scales.size());
    pool_.run_dynamic(std::ssize(scales), [&](std::int64_t i, int) {
      const auto at = static_cast<std::size_t>(i);
      negative[at] = has_negative(*scales[at]);
    });
    std::vector<std::string> names;
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (negative[i]) names.push_back(scales[i]->name);
    }
    faults(names, "holds a negative scale");
  }

  void check_pairs() {
    std::vector<std::string> unequal;
    for (const CheckedTensor& tensor : out_.tensors) {
      const auto pair = fused_pair(tensor.name);
      if (tensor.format != WeightFormat::kNvfp4 || !pair || pair->first != tensor.name) continue;
      for (const char* suffix :
           {".weight_scale_2", ".weight_global_scale", ".input_scale", ".input_global_scale"}) {
        if (scalar(pair->first + suffix) != scalar(pair->second + suffix)) {
          unequal.push_back(pair->first + suffix);
        }
      }
    }
    faults(unequal, "differs from that of the matrix it is loaded together with");
  }

  Status check_index() {
    const std::string path = str(options_.dir, "/", kShardIndexName);
    if (!file_exists(path)) {
      std::set<int> files;
      for (const StoredTensor& tensor : checkpoint_->source().tensors()) files.insert(tensor.file);
      if (files.size() > 1) fault("there is no index, but more than one file");
      return Ok{};
    }
    GLINT_TRY(const Json json, read_json_file(path));
    const Json* metadata = json.find("metadata");
    const Json* total = metadata ? metadata->find("total_size") : nullptr;
    if (!total || *total != Json(out_.bytes)) {
      fault(str("the index says a total_size of ",
                total ? dump_json(*total, JsonStyle::kCompact) : "nothing",
                ", but the tensors are ", out_.bytes, " bytes"));
    }
    std::set<std::string_view> listed;
    if (const Json* map = json.find("weight_map"); map && map->is_object()) {
      for (const auto& [name, file] : map->as_object()) listed.insert(name);
    }
    std::vector<std::string> unlisted;
    for (const StoredTensor& tensor : checkpoint_->source().tensors()) {
      if (!listed.contains(tensor.name)) unlisted.push_back(tensor.name);
    }
    faults(unlisted, "is not in the index");
    return Ok{};
  }

  Status check_hashes() {
    const std::string path = str(options_.dir, "/", kManifestName);
    if (!file_exists(path)) return Ok{};
    GLINT_TRY(const Json json, read_json_file(path));
    const Result<Manifest> manifest = parse_manifest(json);
    if (!manifest.ok()) {
      fault(str(kManifestName, ": ", manifest.error().message));
      return Ok{};
    }
    for (const FinishedShard& shard : manifest.value().shards) {
      const bool is_plain = shard.name.find('/') == std::string::npos;
      const Result<std::string> hash =
          is_plain ? hash_file(str(options_.dir, "/", shard.name), done_) : invalid("elsewhere");
      if (!hash.ok() || hash.value() != shard.xxh128) {
        fault(str(shard.name, " is not the file that was written: its hash differs"));
      }
    }
    return Ok{};
  }

  void check_values() {
    for (const NonFinite& bad : find_non_finite(checkpoint_->source(), pool_, done_)) {
      fault(str(bad.tensor->name, " holds ", bad.count,
                " values or codes that are NaN or infinite, the first at ", bad.first));
    }
  }

  Status compare_with_source();
  // Fills tensor.error; true if rounding explains it.
  Result<bool> compare_tensor(CheckedTensor& tensor, const ModelTensor& entry);

  const CheckOptions& options_;
  ThreadPool& pool_;
  const CheckProgress& done_;
  ModelConfig config_;
  Json config_json_;
  std::optional<Checkpoint> checkpoint_, source_;
  std::vector<ModelTensor> table_;
  std::vector<bool> quantized_;
  OutputCheck out_;
  std::vector<std::size_t> entries_;  // in the table, of each of out_.tensors
};

Result<bool> Checker::compare_tensor(CheckedTensor& tensor, const ModelTensor& entry) {
  GLINT_TRY(const Weight was, source_->weight(tensor.name, entry.rows, entry.cols));
  GLINT_TRY(const Weight is, checkpoint_->weight(tensor.name, entry.rows, entry.cols));
  constexpr std::int64_t kRows = 64;
  std::vector<ErrorSum> sums(static_cast<std::size_t>(ceil_div(entry.rows, kRows)));
  pool_.run_dynamic(std::ssize(sums), [&](std::int64_t part, int) {
    std::vector<float> a(static_cast<std::size_t>(entry.cols)), b(a.size());
    ErrorSum& sum = sums[static_cast<std::size_t>(part)];
    const std::int64_t end = std::min((part + 1) * kRows, entry.rows);
    for (std::int64_t row = part * kRows; row < end; ++row) {
      dequantize_row(was, row, a.data());
      dequantize_row(is, row, b.data());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = double{a[i]} - double{b[i]};
        sum.squared_error += difference * difference;
        sum.squared_weights += double{a[i]} * double{a[i]};
      }
    }
  });
  for (const ErrorSum& sum : sums) tensor.error.add(sum);
  tensor.error.weights = tensor.weights;
  for (const Tensor* data : {&was.data, &is.data}) {
    discard_pages(data->bytes());
    if (done_) done_(std::ssize(data->bytes()));
  }
  source_->release_copies();
  checkpoint_->release_copies();
  const ErrorSum& error = tensor.error;
  if (was.format == tensor.format || error.squared_weights == 0) return error.squared_error == 0;
  return error.squared_error <=
         largest_plausible_error(tensor.format) * error.squared_weights +
             squared_error_of_least_scale(tensor.format) * static_cast<double>(error.weights);
}

Status Checker::compare_with_source() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
    CheckedTensor& tensor = out_.tensors[i];
    GLINT_TRY(const bool is_rounded, compare_tensor(tensor, table_[entries_[i]]));
    if (!is_rounded) {
      names.push_back(str(tensor.name, " (", name_of(tensor.format), ") is off by ",
                          tensor.error.relative(), " of its source,"));
    }
  }
  faults(names, "more than rounding explains");
  // Vectors are copied by every recipe.
  names.clear();
  for (const ModelTensor& entry : table_) {
    if (entry.is_matrix()) continue;
    const StoredTensor* was = source_->source().find(entry.name);
    const StoredTensor* is = checkpoint_->source().find(entry.name);
    if (!was || !is) continue;
    if (!std::equal(was->bytes.begin(), was->bytes.end(), is->bytes.begin(), is->bytes.end())) {
      names.push_back(entry.name);
    }
  }
  faults(names, "is not the source's");
  return Ok{};
}

}  // namespace

Result<OutputCheck> check_output(const CheckOptions& options, ThreadPool& pool,
                                 const CheckProgress& done) {
  return Checker(options, pool, done).check();
}

Result<std::int64_t> bytes_to_check(const CheckOptions& options) {
  const auto bytes_in = [](const std::string& dir) -> Result<std::int64_t> {
    GLINT_TRY(const Checkpoint checkpoint, Checkpoint::open(dir));
    std::int64_t bytes = 0;
    for (const StoredTensor& tensor : checkpoint.source().tensors()) {
      bytes += std::ssize(tensor.bytes);
    }
    return bytes;
  };
  GLINT_TRY(const std::int64_t bytes, bytes_in(options.dir));
  const std::int64_t passes = 1 + file_exists(str(options.dir, "/", kManifestName));
  if (options.source.empty()) return passes * bytes;
  GLINT_TRY(const std::int64_t of_source, bytes_in(options.source));
  return (passes + 1) * bytes + of_source;
}

}  // namespace glint
