#include "base/options.h"

#include <gtest/gtest.h>

#include "base/help.h"

namespace glint {
namespace {

enum class Color { kRed, kGreen, kBlue };

struct Everything {
  std::string model;
  std::optional<std::string> output;
  std::vector<std::string> texts;
  bool chat = false;
  bool stream = true;
  int max_tokens = 256;
  std::int64_t big = -1;
  std::optional<std::uint64_t> seed;
  double top_p = 0.95;
  std::optional<float> temperature;
  std::string dtype = "bf16";
  Color color = Color::kGreen;
  std::vector<std::string> stop = {"END"};
  std::vector<int> batch = {1, 4};

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model, "directory of a checkpoint");
    v("OUT", output, "where to write");
    v("TEXT", texts, "what to read");
    v("chat", chat, "use the template");
    v("stream", stream, "print as it comes");
    v("max-tokens,n,max-new-tokens", max_tokens, "tokens to generate at most");
    v.section("Sampling");
    v("big", big, "a big one");
    v("seed", seed, "of the random numbers");
    v("top-p", top_p, "nucleus");
    v("temperature", temperature, "0 is greedy");
    v("dtype", dtype, "what to compute in", {"bf16", "f32"});
    v("color", color, "a colour", {"red", "green", "blue"});
    v("stop=TEXT", stop, "end before this");
    v("batch,b", batch, "sizes");
  }
};

std::string error_of(const std::vector<std::string>& args) {
  Everything options;
  OptionList list(options);
  const Status status = list.parse(args);
  return status.ok() ? "" : status.error().message;
}

Everything parsed(const std::vector<std::string>& args) {
  Everything options;
  OptionList list(options);
  const Status status = list.parse(args);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return options;
}

TEST(Options, defaults_stay_without_arguments) {
  const Everything o = parsed({"m"});
  EXPECT_EQ(o.model, "m");
  EXPECT_FALSE(o.output || o.seed || o.temperature || o.chat);
  EXPECT_EQ(o.max_tokens, 256);
  EXPECT_EQ(o.stop, std::vector<std::string>{"END"});
}

TEST(Options, every_type_and_spelling) {
  const Everything o =
      parsed({"m", "--chat", "--no-stream", "--max_tokens=-3", "--big", "9223372036854775807",
              "--seed=18446744073709551615", "--top-p", "1e-3", "--temperature=0", "--dtype", "f32",
              "--color=blue", "--stop", "--x", "--stop=", "-b1,2,3"});
  EXPECT_TRUE(o.chat);
  EXPECT_FALSE(o.stream);
  EXPECT_EQ(o.max_tokens, -3);
  EXPECT_EQ(o.big, INT64_MAX);
  EXPECT_EQ(*o.seed, UINT64_MAX);
  EXPECT_EQ(o.top_p, 1e-3);
  EXPECT_EQ(*o.temperature, 0);
  EXPECT_EQ(o.dtype, "f32");
  EXPECT_EQ(o.color, Color::kBlue);
  EXPECT_EQ(o.stop, (std::vector<std::string>{"--x", ""}));
  EXPECT_EQ(o.batch, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(parsed({"m", "-n5"}).max_tokens, 5);
  EXPECT_EQ(parsed({"m", "-n", "6", "--max-new-tokens=7"}).max_tokens, 7);
  EXPECT_FALSE(parsed({"m", "--chat", "--chat=off"}).chat);
}

TEST(Options, numbers_of_a_list_may_be_words) {
  struct Numbers {
    std::string model;
    std::vector<int> size;
    void visit(OptionList& v) {
      v("MODEL", model, "");
      v("size", size, "");
    }
  } options;
  OptionList list(options);
  const std::vector<std::string> args = {"--size", "128", "64", "dir"};
  ASSERT_TRUE(list.parse(args).ok());
  EXPECT_EQ(options.size, (std::vector<int>{128, 64}));
  EXPECT_EQ(options.model, "dir");
}

TEST(Options, positionals_fill_in_order_and_the_rest_is_a_list) {
  const Everything o = parsed({"m", "-7", "--chat", "a", "--", "--b", "--help"});
  EXPECT_EQ(*o.output, "-7");
  EXPECT_EQ(o.texts, (std::vector<std::string>{"a", "--b", "--help"}));
}

TEST(Options, errors_name_option_value_and_expectation) {
  EXPECT_EQ(error_of({}), "MODEL is missing: directory of a checkpoint");
  EXPECT_EQ(error_of({"m", "--max-tokens", "abc"}),
            "--max-tokens expects an integer of at most 32 bits, got \"abc\"");
  EXPECT_EQ(error_of({"m", "-n", "2147483648"}),
            "--max-tokens expects an integer of at most 32 bits, got \"2147483648\"");
  EXPECT_EQ(error_of({"m", "--seed=-1"}),
            "--seed expects an integer from 0 to 2^64 - 1, got \"-1\"");
  EXPECT_EQ(error_of({"m", "--top-p", "nan"}), "--top-p expects a number, got \"nan\"");
  EXPECT_EQ(error_of({"m", "--top-p", "1e999"}), "--top-p expects a number, got \"1e999\"");
  EXPECT_EQ(error_of({"m", "--top-p="}), "--top-p expects a number, got \"\"");
  EXPECT_EQ(error_of({"m", "--dtype", "fp8"}), "--dtype expects bf16 or f32, got \"fp8\"");
  EXPECT_EQ(error_of({"m", "--color", "RED"}), "--color expects red, green or blue, got \"RED\"");
  EXPECT_EQ(error_of({"m", "--batch", "1,,2"}),
            "--batch expects integers with commas between, got \"1,,2\"");
  EXPECT_EQ(error_of({"m", "--chat=maybe"}), "--chat expects true or false, got \"maybe\"");
  EXPECT_EQ(error_of({"m", "--top-p"}), "--top-p needs a value: X");
  EXPECT_EQ(error_of({"m", "--stop", "--chat"}),
            "--stop needs a value, but the option --chat follows (if that is the value, write "
            "--stop=--chat)");
}

TEST(Options, unknown_options_are_refused_with_a_suggestion) {
  EXPECT_EQ(error_of({"m", "--max-token", "3"}),
            "unknown option \"--max-token\", did you mean --max-tokens?");
  EXPECT_EQ(error_of({"m", "--no-steam"}),
            "unknown option \"--no-steam\", did you mean --no-stream?");
  EXPECT_EQ(error_of({"m", "--no-dtype"}), "unknown option \"--no-dtype\", did you mean --dtype?");
  EXPECT_EQ(error_of({"m", "--zzzzzzzzzzzz=1"}), "unknown option \"--zzzzzzzzzzzz\"");
  EXPECT_EQ(error_of({"m", "--hlep"}), "unknown option \"--hlep\", did you mean --help?");
  EXPECT_EQ(error_of({"m", "-x"}), "unknown option \"-x\"");
  EXPECT_EQ(error_of({"m", "--n", "1"}).substr(0, 20), "unknown option \"--n\"");
}

TEST(Options, too_many_positionals_are_refused) {
  struct One {
    std::string model;
    void visit(OptionList& v) { v("MODEL", model, "a model"); }
  } one;
  OptionList list(one);
  EXPECT_EQ(
      list.parse(std::vector<std::string>{"a", "b\n"}).error().message,
      "unexpected argument \"b\\x0a\"; quote a text of several words, and give options by their "
      "names");
}

TEST(Options, help_stops_parsing_and_nothing_is_missing) {
  Everything options;
  OptionList list(options);
  ASSERT_TRUE(list.parse(std::vector<std::string>{"--chat", "-h", "--nonsense"}).ok());
  EXPECT_TRUE(list.wants_help());
}

TEST(Options, limits_may_follow_as_words) {
  struct Few {
    std::vector<std::string> goodput, more;
    void visit(OptionList& v) {
      v("MORE", more, "the rest");
      v("goodput=METRIC:MS", goodput, "limits");
    }
  } few;
  OptionList list(few);
  ASSERT_TRUE(
      list.parse(std::vector<std::string>{"--goodput", "ttft:500", "tpot:1.5", "http://h"}).ok());
  EXPECT_EQ(few.goodput, (std::vector<std::string>{"ttft:500", "tpot:1.5"}));
  EXPECT_EQ(few.more, std::vector<std::string>{"http://h"});
}

TEST(Options, another_default_is_shown_and_is_not_given) {
  struct Few {
    int port = 1;
    void visit(OptionList& v) { v("port", port, "a port"); }
  } few;
  OptionList list(few);
  const auto set = [&](std::string_view arg) { return list.set_defaults({&arg, 1}); };
  ASSERT_TRUE(set("--port=2").ok());
  EXPECT_EQ(few.port, 2);
  EXPECT_FALSE(list.options()[0].is_set);
  EXPECT_NE(help_text({}, list, 60).find("a port (default: 2)"), std::string::npos);
  EXPECT_EQ(set("--port=x").error().message,
            "--port expects an integer of at most 32 bits, got \"x\"");
  EXPECT_EQ(set("--host=x").error().message, "unknown option \"--host=x\"");
}

TEST(Options, help_page_is_aligned_and_wrapped) {
  struct Few {
    std::string model;
    int max_tokens = 256;
    bool stream = true;
    std::string dtype = "bf16";
    int threads = 0;
    void visit(OptionList& v) {
      v("MODEL", model, "directory of a checkpoint");
      v("max-tokens,n", max_tokens, "tokens to generate at most, counting from the first one");
      v.section("Numbers");
      v("stream", stream, "print as it comes");
      v("dtype", dtype, "what to compute in", {"bf16", "f32"});
      v("threads", threads, "threads (default: one per CPU)");
    }
  } few;
  const HelpPage page = {
      .program = "glint go",
      .summary = "go on",
      .description = "Reads a model and goes on until it is told to stop, which may be never.",
      .examples = {{"glint go m", "goes"}}};
  EXPECT_EQ(help_text(page, OptionList(few), 60),
            "glint go: go on\n"
            "\n"
            "Usage: glint go MODEL [options]\n"
            "\n"
            "Reads a model and goes on until it is told to stop, which\n"
            "may be never.\n"
            "\n"
            "Arguments:\n"
            "  MODEL                 directory of a checkpoint\n"
            "\n"
            "Options:\n"
            "  -n, --max-tokens N    tokens to generate at most, counting\n"
            "                        from the first one (default: 256)\n"
            "\n"
            "Numbers:\n"
            "      --[no-]stream     print as it comes (default: on)\n"
            "      --dtype bf16|f32  what to compute in (default: bf16)\n"
            "      --threads N       threads (default: one per CPU)\n"
            "\n"
            "Examples:\n"
            "  glint go m\n"
            "      goes\n");

  struct Long {
    std::string level;
    void visit(OptionList& v) { v("log-level=debug|info|warning|error", level, "what to tell"); }
  } one;
  const std::string text = help_text(page, OptionList(one), 60);
  EXPECT_NE(text.find("|error\n          what to tell\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace glint
