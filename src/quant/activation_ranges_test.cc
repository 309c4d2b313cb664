#include "quant/activation_ranges.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

const ActivationRanges kRanges = {{"model.layers.3.mlp.experts.0.gate_proj", {7.25f, 1184}},
                                  {"model.layers.3.mlp.experts.1.gate_proj", {0.1f, 3}},
                                  {"model.layers.3.mlp.experts.2.gate_proj", {}},
                                  {"model.layers.3.mlp.shared_experts.gate_proj", {}},
                                  {"model.layers.4.mlp.experts.0.gate_proj", {}}};

TEST(ActivationRanges, survive_their_file) {
  const std::string text = dump_json(to_json(kRanges), JsonStyle::kIndent2);
  EXPECT_EQ(parse_activation_ranges(parse_json(text).value()).value(), kRanges);
}

TEST(ActivationRanges, merge_is_the_larger_amax_and_the_sum_of_tokens) {
  ActivationRanges a = {{"x", {2, 10}}, {"y", {1, 4}}};
  merge_into(a, {{"x", {1.5f, 5}}, {"y", {3, 1}}, {"z", {4, 2}}});
  EXPECT_EQ(a, (ActivationRanges{{"x", {2, 15}}, {"y", {3, 5}}, {"z", {4, 2}}}));
}

TEST(ActivationRanges, unseen_experts_take_the_largest_of_their_layer_and_are_named) {
  ActivationRanges ranges = kRanges;
  ranges["model.layers.3.mlp.experts.3.gate_proj"] = {0, 2};  // zeros
  EXPECT_EQ(fill_unseen_experts(ranges),
            (std::vector<std::string>{"model.layers.3.mlp.experts.2.gate_proj",
                                      "model.layers.3.mlp.experts.3.gate_proj"}));
  EXPECT_EQ(ranges["model.layers.3.mlp.experts.2.gate_proj"], (ActivationRange{7.25f, 0}));
  EXPECT_EQ(ranges["model.layers.3.mlp.experts.3.gate_proj"], (ActivationRange{7.25f, 2}));
  EXPECT_EQ(ranges["model.layers.4.mlp.experts.0.gate_proj"], ActivationRange{});
}

TEST(ActivationRanges, other_files_are_refused) {
  const auto refusal = [](const char* text) {
    return parse_activation_ranges(parse_json(text).value()).error().message;
  };
  EXPECT_NE(refusal(R"({"format": "other"})").find("no file of glint calibrate"),
            std::string::npos);
  const auto of_range = [&](const std::string& range) {
    return refusal(
        (R"({"format":"glint activation ranges","version":1,"ranges":{"x":)" + range + "}}")
            .c_str());
  };
  EXPECT_NE(of_range(R"({"amax": "1", "tokens": 1})").find("\"x\" needs"), std::string::npos);
  EXPECT_NE(of_range(R"({"amax": 1})").find("\"x\" needs"), std::string::npos);
  EXPECT_NE(of_range(R"({"amax": 1, "tokens": 9223372036854775807})").find("\"x\" needs"),
            std::string::npos);
  EXPECT_EQ(of_range(R"({"amax": -1, "tokens": 1})"),
            "the amax of \"x\" is -1.0; expected a number that is not negative");
  EXPECT_EQ(of_range(R"({"amax": 1e39, "tokens": 1})"),
            "the amax of \"x\" is 1e+39; expected a number that is not negative");
  EXPECT_EQ(of_range(R"({"amax": 1, "tokens": 0})"),
            "the range of \"x\" has an amax, but saw no tokens");
}

}  // namespace
}  // namespace glint
