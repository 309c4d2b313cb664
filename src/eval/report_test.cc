#include "eval/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

// An evaluation made up by hand; names hold what HTML must not see.
EvalReport sample() {
  EvalReport report = {.reference = {.name = "models/<base>",
                                     .computed_in = "bf16, KV bf16, index keys fp8",
                                     .file_bytes = 4000000,
                                     .format_bytes = {{"bf16", 3900000}, {"f32", 100000}}},
                       .model = {.name = "models/\"small\" & fast",
                                 .computed_in = "bf16, KV fp8, index keys fp8",
                                 .file_bytes = 1250000,
                                 .format_bytes = {{"bf16", 250000}, {"nvfp4", 1000000}}},
                       .text = "heldout.txt",
                       .result = {}};
  Evaluation& r = report.result;
  r.sequences = 2;
  r.rows = 8;
  r.ref_perplexity = 4;
  r.perplexity = 4.1;
  r.ref_top1 = 0.75;
  r.top1 = 0.625;
  r.nll_difference = 0.0246926;
  r.nll_difference_error = 0.0031;
  r.kl = {0, 1e-7f, 2.5e-6f, 0.125f, 0.002f, 0.002f, 0.01f, 1e-5f};
  r.position = {0, 1, 2, 3, 4, 0, 1, 2};
  r.mean_kl = 0.0173765;
  r.median_kl = 1e-5;
  r.p99_kl = r.max_kl = 0.125;
  r.same_top1 = 0.875;
  r.layer_error = {0, 0.0125, 0.03125};
  r.layer_rows = 10;
  return report;
}

TEST(EvalReport, table) {
  EXPECT_EQ(eval_table(sample()),
            "                        reference                      model\n"
            "                        models/<base>                  models/\"small\" & fast\n"
            "computed in             bf16, KV bf16, index keys fp8  bf16, KV fp8, index keys fp8\n"
            "size on disk            3.815 MiB                      1.192 MiB (31.2 %)\n"
            "weights                 bf16 3.719 MiB, f32 97.66 KiB  "
            "bf16 244.1 KiB, nvfp4 976.6 KiB\n"
            "perplexity              4.000000                       4.100000 (+2.500 %)\n"
            "top-1                   75.00 %                        62.50 %\n"
            "\n"
            "rows                    8 of 2 sequences\n"
            "KL(ref || model)        mean 1.738e-02, median 1.000e-05, p99 1.250e-01, "
            "max 1.250e-01 nats\n"
            "top-1 agreement         87.50 %\n"
            "cross-entropy           +2.469e-02 +- 3.1e-03 nats a token\n"
            "\n"
            "relative error of the residual stream, 10 positions\n"
            "  embedding             0.000e+00\n"
            "  after layer 0         1.250e-02\n"
            "  after the final norm  3.125e-02\n");
}

TEST(EvalReport, json_has_every_number) {
  const Json json = eval_json(sample());
  EXPECT_EQ(*json.find("rows"), Json(8));
  EXPECT_EQ(*json.find("kl")->find("p99"), Json(0.125));
  EXPECT_EQ(*json.find("model")->find("file_bytes"), Json(1250000));
  EXPECT_EQ(*json.find("model")->find("format_bytes")->find("nvfp4"), Json(1000000));
  EXPECT_EQ(*json.find("reference")->find("perplexity"), Json(4.0));
  EXPECT_EQ(json.find("layer_error")->as_array().size(), 3u);
  EXPECT_EQ(*json.find("top1_agreement"), Json(0.875));
  EvalReport broken = sample();
  broken.result.perplexity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(*eval_json(broken).find("model")->find("perplexity"), Json());
}

TEST(EvalReport, page_is_these_bytes) {
  const std::string path = str(GLINT_SOURCE_DIR, "/tests/data/eval_report.html");
  const std::string page = eval_html(sample());
  const auto expected = read_file(path);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  if (page == expected.value()) return;
  const std::string made = str(testing::TempDir(), "eval_report.", ::getpid(), ".html");
  ASSERT_TRUE(write_file_atomic(made, page).ok());
  FAIL() << made << " differs from " << path << ": look at it in a browser, then copy it there";
}

TEST(EvalReport, page_needs_no_script_and_no_other_file) {
  const std::string page = eval_html(sample());
  for (const char* word : {"<script", "http:", "https:", "url(", "src=", "@import", "<base>"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(EvalReport, without_layers_there_is_no_chart_of_them) {
  EvalReport report = sample();
  report.result.layer_error.clear();
  EXPECT_EQ(eval_html(report).find("<h2>Layers"), std::string::npos);
  EXPECT_EQ(eval_table(report).find("residual"), std::string::npos);
}

TEST(EvalReport, divergence_by_position_in_spans_of_equal_width) {
  const auto spans = mean_kl_by_position(sample().result, 2);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].first, 0);
  EXPECT_EQ(spans[0].last, 2);
  EXPECT_EQ(spans[0].rows, 6);
  EXPECT_NEAR(spans[0].mean_kl, (1e-7 + 2.5e-6 + 0.002 + 0.01 + 1e-5) / 6, 1e-9);
  EXPECT_EQ(spans[1].last, 4);
  EXPECT_EQ(spans[1].rows, 2);
  EXPECT_EQ(mean_kl_by_position(sample().result, 100).size(), 5u);
  EXPECT_TRUE(mean_kl_by_position({}, 4).empty());
}

TEST(EvalReport, histogram_doubles_and_loses_no_row) {
  const auto spans = kl_histogram(sample().result);
  EXPECT_EQ(spans[0].rows, 2);
  EXPECT_EQ(spans[0].to, 1e-6);
  EXPECT_EQ(spans[2].rows, 1);  // 2.5e-6 of 2e-6 .. 4e-6
  EXPECT_LE(spans.back().from, 0.125);
  EXPECT_GT(spans.back().to, 0.125);
  EXPECT_EQ(spans.back().rows, 1);
  std::int64_t rows = 0;
  for (const KlSpan& span : spans) rows += span.rows;
  EXPECT_EQ(rows, 8);
}

}  // namespace
}  // namespace glint
