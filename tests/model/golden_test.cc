// The model against Hugging Face transformers: tests/golden holds what tools/make_goldens.py wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/str.h"
#include "model/backends_under_test.h"
#include "model/npy_data.h"
#include "runtime/score.h"

namespace glint {
namespace {

constexpr const char* kGoldens[] = {"real_heads",     "odd",       "glm52_sharing",
                                    "deepseek_v32",   "fp8_block", "nvfp4_modelopt",
                                    "nvfp4_ct_mixed", "stacked",   "tied_f16"};
constexpr double kTolerance = 1e-4;  // relative L2 of a row

std::unique_ptr<LoadedModel> load(const std::string& dir, std::unique_ptr<Backend> ops,
                                  DType dtype) {
  auto model = LoadedModel::load({.dir = dir, .numbers = formats_in(dtype), .with_mtp = true},
                                 std::move(ops));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(model).value();
}

// Rows `first ..` of what a sink was given, against the same rows of `expected` [rows, width]; or,
// of those that are `kept`, against the rows that are there for them, in order.
class RowCheck {
 public:
  RowCheck(std::string what, std::vector<float> expected, std::vector<std::uint8_t> skip,
           std::int64_t width, std::vector<std::int32_t> kept = {})
      : what_(std::move(what)),
        expected_(std::move(expected)),
        skip_(std::move(skip)),
        width_(width),
        kept_(std::move(kept)) {}

  void operator()(std::int64_t first, std::span<const float> rows) {
    for (std::size_t r = 0; r * width_ < rows.size(); ++r)
      check(first + r, rows.subspan(r * width_, width_));
  }
  std::int64_t rows_seen() const { return rows_seen_; }

 private:
  void check(std::int64_t row, std::span<const float> values) {
    ++rows_seen_;
    const auto at = std::ranges::find(kept_, row);
    if (skip_[row] || (!kept_.empty() && at == kept_.end())) return;
    const std::int64_t place = kept_.empty() ? row : at - kept_.begin();
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < width_; ++i) {
      const double want = expected_[place * width_ + i], difference = values[i] - want;
      error += difference * difference;
      norm += want * want;
    }
    EXPECT_LE(std::sqrt(error / norm), kTolerance) << what_ << ", row " << row;
  }

  const std::string what_;
  const std::vector<float> expected_;
  const std::vector<std::uint8_t> skip_;
  const std::int64_t width_;
  const std::vector<std::int32_t> kept_;
  std::int64_t rows_seen_ = 0;
};

std::vector<std::uint8_t> near_ties(const std::string& path, std::int64_t rows) {
  if (file_exists(path)) return read_npy<std::uint8_t>(path, "|u1");
  return std::vector<std::uint8_t>(static_cast<std::size_t>(rows));
}

std::vector<std::int32_t> read_hidden_rows() {
  return read_npy<std::int32_t>(GLINT_SOURCE_DIR "/tests/golden/hidden_rows.npy", "<i4");
}

// Hidden states and logits of the draft layer are kept for some rows only.
void check_hidden(const std::string& dir, int layer, std::int64_t first,
                  std::span<const float> rows, std::int64_t width) {
  const std::vector<std::int32_t> kept = read_hidden_rows();
  const auto expected = read_npy<float>(dir + "/hidden.npy", "<f4");
  const std::int64_t count = static_cast<std::int64_t>(rows.size()) / width;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (kept[k] < first || kept[k] >= first + count) continue;
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double want = expected[(layer * kept.size() + k) * width + i];
      const double difference = rows[(kept[k] - first) * width + i] - want;
      error += difference * difference;
      norm += want * want;
    }
    EXPECT_LE(std::sqrt(error / norm), kTolerance)
        << "hidden state " << layer << ", row " << kept[k];
  }
}

void check_golden(const std::string& name, const BackendUnderTest& backend, int chunk) {
  SCOPED_TRACE(str(name, " on ", backend.name, ", chunks of ", chunk));
  const std::string dir = str(GLINT_SOURCE_DIR, "/tests/golden/", name);
  const std::unique_ptr<LoadedModel> model = load(dir, backend.make(2), DType::kF32);
  const auto ids = read_npy<std::int32_t>(dir + "/ids.npy", "<i4");
  const std::int64_t T = static_cast<std::int64_t>(ids.size()), vocab = model->config().vocab_size;
  const std::int64_t topk = model->config().index_topk;
  RowCheck logits("logits", read_npy<float>(dir + "/logits.npy", "<f4"),
                  near_ties(dir + "/skip.npy", T), vocab);
  RowCheck mtp("MTP logits", read_npy<float>(dir + "/mtp_logits.npy", "<f4"),
               near_ties(dir + "/mtp_skip.npy", T - 1), vocab, read_hidden_rows());
  const auto selected = read_npy<std::uint8_t>(dir + "/selected.npy", "|u1");
  const ScoreSinks sinks = {
      .logits = [&](std::int64_t first, std::span<const float> rows) { logits(first, rows); },
      .mtp = [&](std::int64_t first, std::span<const float> rows) { mtp(first, rows); },
      .hidden =
          [&](int layer, std::int64_t first, std::span<const float> rows) {
            check_hidden(dir, layer, first, rows, model->config().hidden_size);
          },
      .selected =
          [&](int layer, std::int64_t first, std::span<const std::int32_t> rows) {
            const std::uint8_t* expected = selected.data() + (layer * T + first) * topk;
            EXPECT_TRUE(std::equal(
                rows.begin(), rows.end(), expected,
                [](int key, std::uint8_t want) {
                  return want == (key < 0 ? 255 : key);  // which no prompt here is as long as
                }))
                << "keys selected by layer " << layer;
          }};
  const auto result = score(*model, ids, {.chunk = chunk, .mtp = true}, sinks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(logits.rows_seen(), T);
  EXPECT_EQ(mtp.rows_seen(), T - 1);
}

TEST(Golden, every_backend_equals_transformers_in_fp32) {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const char* name : kGoldens) check_golden(name, backend, 256);
  }
}

TEST(Golden, chunked_prefill_and_single_steps_equal_transformers) {
  for (const char* name : kGoldens) {
    for (const int chunk : {1, 7, 64}) check_golden(name, best_backend(), chunk);
  }
}

}  // namespace
}  // namespace glint
