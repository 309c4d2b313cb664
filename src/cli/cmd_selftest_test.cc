// glint selftest, as command lines.
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/testing.h"

namespace glint {
namespace {

Outcome selftest(std::vector<std::string> args) {
  args.insert(args.begin(), {"selftest", "--threads", "2"});
  const std::vector<Command> commands = {selftest_command()};
  return run_captured(commands, args);
}

TEST(Selftest, sums_up_each_op_in_a_line) {
  const Outcome outcome = selftest({"--op", "permute", "--no-timing"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("permute                12     0.00e+00      0e+00  ok\n"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("every op conforms"), std::string::npos);
}

TEST(Selftest, json_holds_every_case_and_the_share_of_the_limit) {
  const Outcome outcome = selftest({"--op", "permute", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Result<Json> parsed = parse_json(outcome.out);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().find("failed")->as_int(), 0);
  EXPECT_EQ(parsed.value().find("cases")->as_array().size(), 12u);
  const Json& timed = parsed.value().find("timed")->as_array().front();
  EXPECT_GT(timed.find("us")->as_double(), 0);
  EXPECT_GT(timed.find("share_of_limit")->as_double(), 0);
}

TEST(Selftest, an_unknown_op_is_an_error_that_names_the_nearest) {
  const Outcome outcome = selftest({"--op", "sparse_mlp"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "glint: no op \"sparse_mlp\", did you mean sparse_mla?\n");
  EXPECT_NE(selftest({"--op", "nosuch"}).err.find("; there are "), std::string::npos);
}

}  // namespace
}  // namespace glint
