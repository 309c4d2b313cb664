#include "cli/command.h"

#include <gtest/gtest.h>

#include "cli/testing.h"

namespace glint {
namespace {

struct GreetOptions {
  std::string name;
  int times = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("NAME", name, "whom to greet");
    v("times,t", times, "how often");
  }
};

Status greet(const GreetOptions& options, Cli& cli) {
  if (options.name == "nobody") return invalid("nobody is there to greet");
  if (options.name == "ctrl-c") cli.interrupted = true;
  if (options.name == "wrong") cli.failed = true;
  for (int i = 0; i < options.times; ++i) cli.console.print("hello " + options.name + "\n");
  return Ok{};
}

std::vector<Command> commands() {
  return {make_command<GreetOptions>({.name = "greet",
                                      .group = "Talk",
                                      .summary = "say hello",
                                      .description = "Says hello.",
                                      .examples = {{"glint greet you", "greets you"}}},
                                     greet),
          make_command<GreetOptions>(
              {.name = "bench local", .group = "Measure", .summary = "measure", .description = "."},
              greet)};
}

Outcome run(const std::vector<std::string>& args) { return run_captured(commands(), args); }

TEST(Command, runs_with_its_options) {
  const Outcome outcome = run({"greet", "you", "-t", "2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "hello you\nhello you\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(run({"bench", "local", "x"}).out, "hello x\n");
}

TEST(Command, an_error_is_one_sentence_on_stderr_and_exit_code_2) {
  const Outcome outcome = run({"greet", "nobody"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "glint: nobody is there to greet\n");
  EXPECT_EQ(run({"greet", "a", "--tims", "3"}).err,
            "glint: greet: unknown option \"--tims\", did you mean --times?\n");
  EXPECT_EQ(run({"greet"}).err, "glint: greet: NAME is missing: whom to greet\n");
}

TEST(Command, interrupted_commands_exit_with_130) {
  EXPECT_EQ(run({"greet", "ctrl-c"}).exit_code, 130);
}

TEST(Command, checks_that_find_something_wrong_exit_with_1) {
  const Outcome outcome = run({"greet", "wrong"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "hello wrong\n");
}

TEST(Command, overview_lists_commands_by_group) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(
      outcome.out.find("\nTalk:\n  greet        say hello\n\nMeasure:\n  bench local  measure\n"),
      std::string::npos)
      << outcome.out;
  EXPECT_EQ(run({}).out, outcome.out);
  EXPECT_EQ(run({"help"}).out, outcome.out);
}

TEST(Command, help_of_a_command_teaches) {
  const Outcome outcome = run({"help", "greet"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part :
       {"glint greet: say hello\n", "Usage: glint greet NAME [options]\n", "  -t, --times N",
        "(default: 1)", "  glint greet you\n      greets you\n",
        "--log-level debug|info|warning|error"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  EXPECT_EQ(run({"greet", "--help"}).out, outcome.out);
  EXPECT_EQ(run({"greet", "x", "-h"}).out, outcome.out);
  const std::string family = run({"bench", "--help"}).out;
  EXPECT_NE(family.find("  bench local"), std::string::npos) << family;
  EXPECT_EQ(family.find("  greet"), std::string::npos) << family;
  EXPECT_EQ(run({"help", "bench"}).out, family);
}

TEST(Command, unknown_commands_are_refused_with_a_suggestion) {
  EXPECT_EQ(run({"gret"}).err, "glint: unknown command \"gret\", did you mean `glint greet`?\n");
  EXPECT_EQ(run({"bench", "remote"}).err,
            "glint: \"bench\" is not all of a command; there is `glint bench local`\n");
  for (const Outcome& near : {run({"bench", "lokal"}), run({"help", "bench", "lokal"})}) {
    EXPECT_EQ(near.err,
              "glint: unknown command \"bench lokal\", did you mean `glint bench local`?\n");
    EXPECT_EQ(near.out, "");
  }
  EXPECT_EQ(run({"help", "xxxxxxxx"}).err,
            "glint: unknown command \"xxxxxxxx\"; `glint --help` lists the commands\n");
  EXPECT_EQ(run({"bench", "greet"}).err,
            "glint: \"bench\" has no `greet`; there is `glint greet`\n");
  EXPECT_EQ(run({"--frobnicate"}).exit_code, 2);
}

TEST(Command, a_link_names_the_command_and_has_the_version_of_this_program) {
  std::vector<std::string> args = {"serve"};
  add_name_of_link("/usr/bin/vllm", args);
  EXPECT_EQ(args, (std::vector<std::string>{"vllm", "serve"}));
  args = {"--version"};
  add_name_of_link("vllm", args);
  EXPECT_EQ(args, (std::vector<std::string>{"--version"}));
}

TEST(Command, version_is_one_line) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("glint ") && outcome.out.ends_with("\n")) << outcome.out;
}

}  // namespace
}  // namespace glint
