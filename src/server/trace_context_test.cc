#include "server/trace_context.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace glint {
namespace {

TEST(TraceContext, goes_on_with_the_callers_trace) {
  IdSource ids(1);
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  const TraceContext context = ids.trace("00-" + trace + "-b7ad6b7169203331-01");
  EXPECT_EQ(context.trace_id, trace);
  EXPECT_EQ(context.parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(context.sampled);
  EXPECT_EQ(context.header(), "00-" + trace + "-" + context.span_id + "-01");
  EXPECT_FALSE(ids.trace("00-" + trace + "-b7ad6b7169203331-00").sampled);
  EXPECT_EQ(ids.trace("cc-" + trace + "-b7ad6b7169203331-01-what-later-versions-add").trace_id,
            trace);
}

TEST(TraceContext, begins_a_new_trace_without_a_valid_header) {
  IdSource ids(1);
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  for (const std::string& header : std::vector<std::string>{
           "", "00-" + trace + "-b7ad6b7169203331", "ff-" + trace + "-b7ad6b7169203331-01",
           "00-" + std::string(32, '0') + "-b7ad6b7169203331-01",
           "00-" + trace + "-0000000000000000-01", "00-" + trace + "-b7ad6b7169203331-01-x",
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"}) {
    const TraceContext context = ids.trace(header);
    EXPECT_NE(context.trace_id, trace) << header;
    EXPECT_EQ(context.trace_id.size(), 32u);
    EXPECT_EQ(context.parent_id, "");
  }
}

TEST(TraceContext, ids_of_clients_are_taken_if_harmless) {
  EXPECT_EQ(harmless_id("abc-123_x:y"), "abc-123_x:y");
  for (const std::string& id :
       std::vector<std::string>{"", std::string("a b"), std::string("a\nb"), std::string("\"x"),
                                std::string(129, 'a'), std::string("\xc3\xa9")})
    EXPECT_FALSE(harmless_id(id)) << id;
}

}  // namespace
}  // namespace glint
