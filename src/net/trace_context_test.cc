#include "net/trace_context.h"

#include <gtest/gtest.h>

#include <set>

namespace glint {
namespace {

const std::string kParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, the_specification_s_example) {
  const auto context = parse_trace_context(kParent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context->span_id, "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->state, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  EXPECT_EQ(format_traceparent(*context), kParent);
}

TEST(TraceContext, only_the_last_flag_is_known) {
  const auto with_flags = [](const char* flags) {
    return parse_trace_context(kParent.substr(0, 53) + flags);
  };
  EXPECT_FALSE(with_flags("00")->sampled);
  EXPECT_TRUE(with_flags("03")->sampled);
  EXPECT_TRUE(with_flags("ff")->sampled);
  EXPECT_FALSE(with_flags("fe")->sampled);
  EXPECT_EQ(format_traceparent(*with_flags("fe")).substr(52), "-00");
}

TEST(TraceContext, later_versions_may_be_longer) {
  EXPECT_TRUE(parse_trace_context("cc" + kParent.substr(2)));
  EXPECT_TRUE(parse_trace_context("cc" + kParent.substr(2) + "-what-the-future-brings"));
  EXPECT_FALSE(parse_trace_context("cc" + kParent.substr(2) + ".what"));
}

TEST(TraceContext, what_is_not_valid_is_none) {
  for (const std::string& text :
       {std::string(), std::string("00"), kParent + "-", kParent + "0", kParent.substr(0, 54),
        "ff" + kParent.substr(2), "0x" + kParent.substr(2), "00_" + kParent.substr(3),
        std::string("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
        std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01"), " " + kParent,
        std::string(100'000, '0'), std::string(55, '\0')}) {
    EXPECT_FALSE(parse_trace_context(text)) << text.substr(0, 100);
  }
  for (std::size_t i = 0; i < kParent.size(); ++i) {
    std::string text = kParent;
    text[i] = '\xff';
    EXPECT_FALSE(parse_trace_context(text)) << i;
  }
}

TEST(TraceContext, a_hostile_state_is_dropped) {
  EXPECT_EQ(parse_trace_context(kParent, "a=b\r\nx: y")->state, "");
  EXPECT_EQ(parse_trace_context(kParent, std::string(513, 'a'))->state, "");
  EXPECT_EQ(parse_trace_context(kParent, "a=\xff")->state, "");
}

TEST(TraceContext, spans_keep_the_trace_and_have_ids_of_their_own) {
  Random random(7);
  const auto parent = parse_trace_context(kParent.substr(0, 53) + "00", "a=b");
  const TraceContext child = new_span(parent, random);
  EXPECT_EQ(child.trace_id, parent->trace_id);
  EXPECT_NE(child.span_id, parent->span_id);
  EXPECT_FALSE(child.sampled);
  EXPECT_EQ(child.state, "a=b");
  std::set<std::string> traces, spans;
  for (int i = 0; i < 1000; ++i) {
    const TraceContext root = new_span({}, random);
    EXPECT_TRUE(parse_trace_context(format_traceparent(root)));
    EXPECT_TRUE(root.sampled);
    traces.insert(root.trace_id);
    spans.insert(root.span_id);
  }
  EXPECT_EQ(traces.size(), 1000u);
  EXPECT_EQ(spans.size(), 1000u);
}

}  // namespace
}  // namespace glint
