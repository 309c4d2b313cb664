#include "server/flags/flag_table.h"

#include <gtest/gtest.h>

#include <set>

#include "base/str.h"
#include "server/flags/graph_flags.h"
#include "server/flags/translate_flags.h"

namespace glint {
namespace {

constexpr Dialect kAll[] = {Dialect::kGlint, Dialect::kVllm, Dialect::kSglang, Dialect::kTrtllm};

TEST(FlagTable, every_file_is_of_the_form) {
  EXPECT_EQ(flag_files().size(), 4u);
  for (const EmbeddedFile& file : flag_files()) {
    const Result<FlagTable> table = read_flags(file.bytes);
    ASSERT_TRUE(table.ok()) << file.name << ": " << table.error().message;
    EXPECT_EQ(table.value().defaults.empty(), file.name == "shared.flags");
    for (const FlagRule& rule : table.value().rules) {
      EXPECT_FALSE(rule.names.empty()) << file.name << ": " << rule.target;
      for (const std::string_view name : rule.names) EXPECT_EQ(name.find('_'), name.npos) << name;
    }
  }
}

TEST(FlagTable, no_flag_of_a_dialect_has_two_meanings) {
  for (const Dialect dialect : kAll) {
    std::set<std::pair<std::string_view, std::string_view>> meanings;
    std::set<std::string_view> seen;
    for (const FlagRule& rule : flags_of(dialect).rules) {
      for (const std::string_view name : rule.names) {
        meanings.emplace(name, rule.target);
        EXPECT_TRUE(seen.insert(name).second || dialect == Dialect::kGlint) << name;
      }
    }
    EXPECT_EQ(meanings.size(), seen.size());
    EXPECT_EQ(flags_of(dialect).defaults.empty(), dialect == Dialect::kGlint);
  }
}

TEST(FlagTable, lines_that_are_not_of_the_form_are_named) {
  const FlagTable table =
      read_flags("# A.\n\n[defaults]\n--port=1\n[set value not_auto] port\np -q\nlisten.*\n")
          .value();
  EXPECT_EQ(table.defaults, (std::vector<std::string_view>{"--port=1"}));
  ASSERT_EQ(table.rules.size(), 1u);
  EXPECT_EQ(table.rules[0].names, (std::vector<std::string_view>{"p", "-q", "listen.*"}));
  EXPECT_EQ(table.rules[0].target, "port");
  EXPECT_FALSE(table.rules[0].convert("auto").value().value);
  for (const char* head : {"[set]", "[sets value] a", "[set number] a", "[set value nothing] a",
                           "[set value", "[set value not_auto b] a"}) {
    EXPECT_EQ(read_flags(str("# A.\n", head, "\nb\n")).error().message,
              str("line 2: no head of a list of flags: ", head));
  }
  EXPECT_EQ(read_flags("b\n").error().message, "line 1: flags without a head: b");
}

struct Own {
  std::string host, priority_order = "lower";
  int port = 1, max_num_seqs = 2, rebalance = 3;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("host", host, "a host");
    v("port", port, "a port");
    v("max-num-seqs", max_num_seqs, "a number");
    v("eplb-rebalance-num-iterations", rebalance, "a number");
    v("priority-order", priority_order, "an order");
  }
};

TEST(TranslateFlags, defaults_are_the_dialects_and_reasons_are_told) {
  Own own;
  OptionList options(own);
  const std::vector<std::string> args = {"--port", "5", "--trust-remote-code", "--enable-trace"};
  const TranslatedArgs translated = translate_flags(Dialect::kSglang, args, options).value();
  EXPECT_EQ(translated.args, std::vector<std::string>{"--port=5"});
  EXPECT_EQ(own.host, "127.0.0.1");
  EXPECT_EQ(own.port, 30000);
  EXPECT_EQ(options.options()[1].default_text, "30000");
  EXPECT_EQ(own.priority_order, "higher");
  EXPECT_EQ(translated.ignored,
            (std::vector<std::string>{
                "--trust-remote-code (nothing of a checkpoint is executed, and there is no Python)",
                "--enable-trace (give --otlp-traces-endpoint)"}));
  EXPECT_EQ(translate_flags(Dialect::kVllm, std::vector<std::string>{"--enable-trace"}, options)
                .error()
                .message,
            "unknown option \"--enable-trace\", did you mean --enable-metrics?");
  const std::vector<std::string> several = {"--lora-target-modules", "a", "b", "--port", "5"};
  EXPECT_EQ(translate_flags(Dialect::kVllm, several, options).value().ignored,
            std::vector<std::string>{"--lora-target-modules a b (there are no adapters)"});
}

TEST(GraphFlags, are_set_by_name) {
  GraphFlags flags;
  ASSERT_TRUE(flags.set("eager", "true").ok());
  EXPECT_TRUE(flags.eager);
  ASSERT_TRUE(flags.set("no eager", "true").ok());
  EXPECT_FALSE(flags.eager);
  ASSERT_TRUE(flags.set("no pads", "true").ok());
  EXPECT_FALSE(flags.pads);
  ASSERT_TRUE(flags.set("no windows", "true").ok());
  EXPECT_FALSE(flags.windows);
  ASSERT_TRUE(flags.set("rows", "8").ok());
  EXPECT_EQ(flags.rows, std::vector<std::int64_t>{8});
  EXPECT_FALSE(flags.set("most", "0").ok());
  GraphFlags sizes;
  ASSERT_TRUE(sizes.set("sizes", "8").ok());
  EXPECT_EQ(sizes.most, 8);
  ASSERT_TRUE(sizes.set("sizes", "16").ok() && sizes.set("sizes", "32").ok());
  EXPECT_EQ(sizes.rows, (std::vector<std::int64_t>{8, 16, 32}));
  EXPECT_FALSE(sizes.most);
  EXPECT_FALSE(flags.set("rows", "many").ok());
}

}  // namespace
}  // namespace glint
