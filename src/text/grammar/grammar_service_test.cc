#include "text/grammar/grammar_service.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "base/str.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_testing.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;
using Grammar = GrammarService::Grammar;

// This program again, as the grammar process of the tests below.
TEST(GrammarServiceProcess, DISABLED_runs) { _exit(run_grammar_process()); }

const std::vector<std::string>& this_program() {
  static const std::vector<std::string> command = {
      "/proc/self/exe", "--gtest_filter=GrammarServiceProcess.DISABLED_runs",
      "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  return command;
}

GrammarVocabulary vocabulary() {
  const TestGrammars& tiny = tiny_grammars();
  return read_vocabulary(tiny.tokenizer, tiny.vocab_size, {tiny.stop_id});
}

std::future<Grammar> begin(
    GrammarService& service, const GrammarSpec& spec,
    std::function<bool()> gone = [] { return false; }, std::string client = {}) {
  auto promise = std::make_shared<std::promise<Grammar>>();
  std::future<Grammar> future = promise->get_future();
  service.compile(
      spec, std::move(gone), [promise](Grammar grammar) { promise->set_value(std::move(grammar)); },
      std::move(client));
  return future;
}

std::string error_of(GrammarService& service, const GrammarSpec& spec) {
  const Grammar grammar = begin(service, spec).get();
  return grammar.ok() ? "" : grammar.error().message;
}

GrammarSpec regex(std::string text) { return {.kind = Kind::kRegex, .text = std::move(text)}; }

// Seconds of work, in 100 MB.
GrammarSpec bomb(int number) { return regex(str("(.{0,30}|[a-z]{0,30}.*){0,70}", number)); }

// Gigabytes.
GrammarSpec large_bomb() {
  GrammarSpec spec = {.kind = Kind::kChoice};
  for (int i = 0; i < 700; ++i) spec.choices.push_back(str(i) + std::string(5000, 'x'));
  return spec;
}

// Fields of /proc/PID/stat after the name, from "state" on, which is the third.
std::vector<std::string> stat_of(int pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.erase(0, text.rfind(')') + 1);
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

bool is_alive(int pid) {
  const auto fields = stat_of(pid);
  return !fields.empty() && fields[0] != "Z" && fields[0] != "X";
}

std::set<int> children_of(int parent) {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const int pid = std::stoi(name);
    const auto fields = stat_of(pid);
    if (fields.size() > 1 && fields[1] == str(parent) && is_alive(pid)) found.insert(pid);
  }
  return found;
}

template <class Condition>
void wait_for(const Condition& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The process that compiles the only job.
int compiling(const GrammarService& service) {
  std::set<int> children;
  wait_for([&] { return !(children = children_of(service.process_id())).empty(); });
  return *children.begin();
}

// On a machine that may be too busy for a while, also to begin the process.
Grammar compiled(GrammarService& service, const GrammarSpec& spec) {
  Grammar grammar = begin(service, spec).get();
  for (int i = 0; i < 5 && !grammar.ok() && grammar.error().code == ErrorCode::kUnavailable; ++i)
    grammar = begin(service, spec).get();
  return grammar;
}

TEST(GrammarService, compiles_every_kind_in_a_process) {
  GrammarService service(vocabulary(), {.command = this_program()});
  const ToolSpec tool = {"f", parse_json(kSchemas[0]).value()};
  const auto any = std::make_shared<const GrammarSpec>();
  const std::vector<GrammarSpec> specs = {
      {.kind = Kind::kJsonObject},
      {.kind = Kind::kJsonSchema, .text = kSchemas[0]},
      regex("[a-f]{2,9}"),
      {.kind = Kind::kEbnf, .text = "root ::= \"a\" root | \"b\""},
      {.kind = Kind::kChoice, .choices = {"yes", "no"}},
      {.kind = Kind::kToolCalls, .tools = {tool}},
      {.kind = Kind::kToolCalls, .tools = {tool}, .at_least_one = false, .lenient = true},
      {.kind = Kind::kToolCalls, .tools = {tool}, .instead = any},
      {.kind = Kind::kStructuralTag,
       .text = R"({"structures":[{"begin":"<a>","schema":{"type":"null"},"end":"</a>"}],
                  "triggers":["<a>"]})"}};
  for (const GrammarSpec& spec : specs) {
    const Grammar grammar = begin(service, spec).get();
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    const auto constraint = service.constrain(grammar.value(), false);
    const auto expected = tiny_grammars().constrain(spec);
    std::vector<std::uint32_t> bits(tiny_grammars().num_words()),
        expected_bits(tiny_grammars().num_words());
    EXPECT_EQ(TestGrammars::fill(*constraint, bits), TestGrammars::fill(*expected, expected_bits));
    EXPECT_EQ(bits, expected_bits) << dump_spec(spec);
  }
  EXPECT_EQ(service.num_begun(), std::ssize(specs));
}

TEST(GrammarService, says_what_the_process_says) {
  GrammarService service(vocabulary(), {.command = this_program()});
  EXPECT_EQ(error_of(service, regex("((")),
            tiny_grammars().compiler.compile(regex("((")).error().message);
  EXPECT_EQ(error_of(service, regex(std::string(20000, 'a'))),
            "the expression has 20000 bytes, over the limit of 16384");
}

TEST(GrammarService, the_same_is_compiled_once) {
  GrammarService service(vocabulary(), {.command = this_program()});
  std::vector<std::future<Grammar>> all;
  for (int i = 0; i < 8; ++i) all.push_back(begin(service, regex("unique[0-9]")));
  const auto first = all[0].get().value();
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].get().value(), first);
  EXPECT_EQ(begin(service, regex("unique[0-9]")).get().value(), first);
  EXPECT_EQ(service.num_begun(), 1);
}

TEST(GrammarService, a_budget_of_time_is_kept_and_remembered) {
  GrammarService service(vocabulary(),
                         {.command = this_program(), .budget = {.seconds = 0.1, .bytes = 1 << 30}});
  const std::string expected =
      "the grammar takes more than 0.1 s of processor time to compile (--grammar-timeout); make "
      "it "
      "simpler";
  EXPECT_EQ(compiled(service, bomb(1)).error().message, expected);
  const int begun = service.num_begun();
  EXPECT_EQ(error_of(service, bomb(1)), expected);
  EXPECT_EQ(service.num_begun(), begun);
  EXPECT_TRUE(compiled(service, regex("[0-9]")).ok());
}

TEST(GrammarService, a_budget_of_memory_is_kept_and_remembered) {
  GrammarService service(
      vocabulary(), {.command = this_program(), .budget = {.seconds = 1000, .bytes = 64 << 20}});
  const std::string expected =
      "the grammar takes more than 64 MiB of memory to compile (--grammar-memory); make it simpler";
  EXPECT_EQ(error_of(service, large_bomb()), expected);
  EXPECT_EQ(error_of(service, large_bomb()), expected);
  EXPECT_EQ(service.num_begun(), 1);
}

TEST(GrammarService, a_result_that_is_too_large_is_refused) {
  GrammarService service(vocabulary(), {.command = this_program(), .max_compiled_bytes = 100});
  EXPECT_EQ(error_of(service, regex("[a-z]")), "the grammar has more than 0 MiB when compiled");
}

TEST(GrammarService, clients_take_turns) {
  std::promise<int> begun;
  std::atomic<bool> first_gone = false;
  GrammarService service(vocabulary(),
                         {.command = this_program(), .budget = {.seconds = 1000}, .at_once = 1});
  const auto never = [] { return false; };
  for (int i = 0; i < 20; ++i)
    service.compile(
        bomb(i), [&, i] { return i == 0 && first_gone; }, [](const Grammar&) {}, "many");
  wait_for([&] { return service.num_begun() > 0; });
  const auto done = [&](const Grammar& grammar) {
    EXPECT_TRUE(grammar.ok());
    begun.set_value(service.num_begun());
  };
  const int before = service.num_begun();
  service.compile(regex("[a-z]"), never, done, "few");
  first_gone = true;
  EXPECT_LE(begun.get_future().get() - before, 2);  // itself, after the one that was before it
}

TEST(GrammarService, a_small_one_does_not_wait_for_bombs) {
  GrammarService service(vocabulary(), {.command = this_program(),
                                        .budget = {.seconds = 1000},
                                        .at_once = 1,
                                        .slow_at_once = 1,
                                        .max_slow = 3});
  std::atomic<bool> gone[3] = {false, false, false};
  std::vector<std::future<Grammar>> bombs;
  std::future<Grammar> shared;
  for (int i = 0; i < 3; ++i) {
    if (i == 2)
      shared = begin(
          service, bomb(2), [&] { return gone[2].load(); }, "many");
    bombs.push_back(begin(
        service, bomb(i), [&mine = gone[i]] { return mine.load(); }, i < 2 ? "many" : "few"));
    if (i < 2) wait_for([&] { return service.num_begun() == i + 1; });
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(begin(service, regex(str("[a-z]", i))).get().ok());
  // It is one too many for its client; the third is not for one of the two that wait for it.
  EXPECT_EQ(bombs[1].get().error().message,
            "the server is busy: too many grammars that compile slowly wait");
  // The first goes on; when it is gone, the third begins again.
  wait_for([&] { return children_of(service.process_id()).size() == 1; });
  const int first = compiling(service);
  gone[0] = true;
  EXPECT_EQ(bombs[0].get().error().code, ErrorCode::kUnavailable);
  wait_for([&] { return !is_alive(first); });
  EXPECT_NE(compiling(service), first);
  gone[2] = true;
  EXPECT_EQ(bombs[2].get().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(shared.get().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(service.num_begun(), 6);
}

TEST(GrammarService, what_nobody_wants_any_more_is_given_up) {
  GrammarService service(vocabulary(), {.command = this_program(), .budget = {.seconds = 1000}});
  std::atomic<bool> first_gone = false, second_gone = false;
  auto first = begin(service, bomb(1), [&] { return first_gone.load(); });
  auto second = begin(service, bomb(1), [&] { return second_gone.load(); });
  const int process = compiling(service);
  first_gone = true;
  EXPECT_EQ(first.get().error().message, "the request is cancelled");
  EXPECT_TRUE(is_alive(process));  // the second wants it
  second_gone = true;
  EXPECT_FALSE(second.get().ok());
  wait_for([&] { return !is_alive(process); });
  EXPECT_TRUE(begin(service, regex("[a-z]")).get().ok());
}

TEST(GrammarService, work_is_done_at_idle_priority) {
  GrammarService service(vocabulary(), {.command = this_program(), .budget = {.seconds = 1000}});
  std::atomic<bool> enough = false;
  auto result = begin(service, bomb(1), [&] { return enough.load(); });
  const int process = compiling(service);
  EXPECT_GE(std::stoi(stat_of(process).at(16)), 10);                     // nice
  wait_for([&] { return stat_of(process).at(38) == str(SCHED_IDLE); });  // policy
  enough = true;
  result.wait();
}

TEST(GrammarService, too_many_may_not_wait) {
  GrammarService service(vocabulary(), {.command = this_program(),
                                        .budget = {.seconds = 1000},
                                        .at_once = 1,
                                        .max_waiting = 4,
                                        .max_spec_bytes = 100});
  std::atomic<bool> enough = false;
  const auto gone = [&] { return enough.load(); };
  auto first = begin(service, bomb(1), gone), second = begin(service, bomb(2), gone);
  EXPECT_EQ(begin(service, regex("[a-z]")).get().error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(error_of(service, regex(std::string(100, 'a'))),
            "the grammar has 133 bytes; one may have 100");
  enough = true;
  first.wait();
  second.wait();
  EXPECT_TRUE(begin(service, regex("[a-z]")).get().ok());
}

TEST(GrammarService, a_client_leaves_as_much_free_as_it_has) {
  for (const bool by_bytes : {false, true}) {
    std::atomic<bool> enough = false;
    const auto gone = [&] { return enough.load(); };
    GrammarServiceOptions options = {
        .command = this_program(), .budget = {.seconds = 1000}, .at_once = 1, .max_waiting = 4};
    if (by_bytes) {
      options.max_waiting = 100;
      options.max_waiting_bytes = 4 * dump_spec(bomb(0)).size();
    }
    GrammarService service(vocabulary(), std::move(options));
    std::vector<std::future<Grammar>> wait;
    const auto is_refused = [&](const GrammarSpec& spec, std::string client) {
      auto future = begin(service, spec, gone, std::move(client));
      if (future.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        return future.get().error().code == ErrorCode::kResourceExhausted;
      wait.push_back(std::move(future));
      return false;
    };
    EXPECT_FALSE(is_refused(bomb(0), "many"));
    EXPECT_FALSE(is_refused(bomb(by_bytes ? 1 : 0), "many"));
    EXPECT_TRUE(is_refused(bomb(2), "many"));
    EXPECT_EQ(is_refused(bomb(0), "many"), !by_bytes);  // the same takes no bytes
    auto few = begin(service, regex("[a-z]"), gone, "few");
    EXPECT_TRUE(is_refused(bomb(3), "few"));  // would leave less than it has
    EXPECT_EQ(is_refused(bomb(0), "few"), !by_bytes);
    EXPECT_TRUE(few.get().ok());
    enough = true;
    for (auto& each : wait) EXPECT_EQ(each.get().error().code, ErrorCode::kUnavailable);
  }
}

TEST(GrammarService, a_process_that_was_killed_is_replaced) {
  GrammarService service(vocabulary(), {.command = this_program(), .budget = {.seconds = 1000}});
  EXPECT_TRUE(begin(service, regex("[a-z]")).get().ok());
  const int before = service.process_id();
  kill(before, SIGKILL);
  wait_for([&] { return !is_alive(before); });
  EXPECT_TRUE(begin(service, regex("[0-9]")).get().ok());
  EXPECT_NE(service.process_id(), before);

  wait_for([&] { return children_of(service.process_id()).empty(); });
  auto result = begin(service, bomb(1));
  kill(compiling(service), SIGKILL);
  EXPECT_EQ(result.get().error().code, ErrorCode::kUnavailable);
}

// The process gets no processor time at all.
TEST(GrammarService, who_waits_displaces_one_that_does_not_get_its_time) {
  GrammarService service(vocabulary(),
                         {.command = this_program(), .budget = {.seconds = 0.5}, .at_once = 1});
  ASSERT_TRUE(compiled(service, regex("[01]")).ok());
  const int process = service.process_id();
  ASSERT_GT(process, 0);
  kill(process, SIGSTOP);
  auto stopped = begin(service, bomb(1)), waits = begin(service, regex("[a-z]"));
  const Grammar given_up = stopped.get();
  EXPECT_EQ(given_up.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(
      given_up.error().message,
      "the machine is too busy to compile this grammar: in 1 s it did not get 0.5 s of processor "
      "time (--grammar-timeout)");
  kill(process, SIGCONT);
  EXPECT_TRUE(waits.get().ok());
}

TEST(GrammarService, nobody_waits_for_ever_for_one_that_does_not_get_its_time) {
  GrammarService service(vocabulary(), {.command = this_program(), .budget = {.seconds = 0.5}});
  ASSERT_GT(service.process_id(), 0);
  kill(service.process_id(), SIGSTOP);
  EXPECT_EQ(begin(service, bomb(1)).get().error().message,
            "the machine is too busy to compile this grammar: in 11 s it did not get 0.5 s of "
            "processor time (--grammar-timeout)");
}

TEST(GrammarService, closing_gives_up_what_runs) {
  GrammarService service(vocabulary(), {.command = this_program(), .budget = {.seconds = 1000}});
  auto first = begin(service, bomb(1));
  const int process = compiling(service), host = service.process_id();
  service.close();
  EXPECT_EQ(first.get().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(begin(service, regex("[a-z]")).get().error().code, ErrorCode::kUnavailable);
  wait_for([&] { return !is_alive(process) && !is_alive(host); });
}

TEST(GrammarService, without_a_process_the_thread_compiles) {
  GrammarService service(vocabulary(), {});
  EXPECT_TRUE(begin(service, regex("[a-z]")).get().ok());
  EXPECT_TRUE(begin(service, regex("[a-z]")).get().ok());
  EXPECT_EQ(service.num_begun(), 1);
  EXPECT_EQ(service.process_id(), 0);
  EXPECT_NE(error_of(service, regex("((")), "");
}

TEST(GrammarService, a_program_that_cannot_be_started_is_told) {
  GrammarService service(vocabulary(), {.command = {"/nonexistent"}});
  EXPECT_EQ(error_of(service, regex("[a-z]")),
            "no process to compile grammars: /nonexistent: No such file or directory");
}

}  // namespace
}  // namespace glint
