// How long structured output takes: compiling a grammar, once for each request that is new, here
// and as a server has it done, by another process; and filling a mask, for each token.
//
//   bench_grammar [VOCABULARY]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string_view>

#include "text/grammar/grammar_service.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_testing.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

double micros(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

std::vector<std::pair<const char*, GrammarSpec>> specs() {
  using Kind = GrammarSpec::Kind;
  const Json parameters = parse_json(kSchemas[0]).value();
  std::vector<ToolSpec> many;
  for (int i = 0; i < 40; ++i) many.push_back({str("function_", i), parameters});
  std::string large = R"({"type":"object","properties":{)";
  for (int i = 0; i < 100; ++i) large += str(i ? "," : "", "\"p", i, "\":", kSchemas[i % 8]);
  large += "}}";
  return {
      {"JSON object", {.kind = Kind::kJsonObject}},
      {"schema, 4 properties", {.kind = Kind::kJsonSchema, .text = kSchemas[0]}},
      {"schema, 100 properties", {.kind = Kind::kJsonSchema, .text = large}},
      {"schema, maxLength 5000",
       {.kind = Kind::kJsonSchema, .text = R"({"type":"string","maxLength":5000})"}},
      {"schema, maxItems 5000",
       {.kind = Kind::kJsonSchema,
        .text = R"({"type":"array","items":{"type":"integer"},"maxItems":5000})"}},
      {"expression", {.kind = Kind::kRegex, .text = "[A-Z]{2}-[0-9]{1,6}(\\.[a-z]+)*"}},
      {"expression, any text", {.kind = Kind::kRegex, .text = ".*"}},
      {"1 function", {.kind = Kind::kToolCalls, .tools = {many[0]}}},
      {"40 functions", {.kind = Kind::kToolCalls, .tools = many}},
      {"40 functions in text", {.kind = Kind::kToolCalls, .tools = many, .at_least_one = false}}};
}

GrammarService::Grammar from(GrammarService& service, const GrammarSpec& spec) {
  std::promise<GrammarService::Grammar> promise;
  service.compile(
      spec, [] { return false; },
      [&](GrammarService::Grammar grammar) { promise.set_value(std::move(grammar)); });
  return promise.get_future().get();
}

void run(int size) {
  auto start = Clock::now();
  const Tokenizer tokenizer = large_tokenizer(size);
  const double tokenizer_us = micros(start);
  start = Clock::now();
  const TestGrammars grammars(tokenizer, size);
  std::printf("vocabulary of %d: read in %.0f ms (tokenizer made in %.0f ms)\n", size,
              micros(start) / 1e3, tokenizer_us / 1e3);
  GrammarService service(
      read_vocabulary(tokenizer, size, {grammars.stop_id}),
      {.command = {"/proc/self/exe", kGrammarProcessArgument}, .budget = {.seconds = 1000}});
  std::printf("%-26s %10s %10s %10s %10s %10s %10s\n", "", "compile ms", "process ms", "KiB",
              "mask us", "most us", "accept us");
  for (const auto& [name, spec] : specs()) {
    start = Clock::now();
    const auto compiled = grammars.compiler.compile(spec);
    if (!compiled.ok()) {
      std::printf("%-26s %s\n", name, compiled.error().message.c_str());
      continue;
    }
    const double compile_us = micros(start);
    start = Clock::now();
    const auto again = from(service, spec);
    const double process_us = micros(start);
    const double kib = static_cast<double>(grammars.compiler.dump(*compiled.value()).size()) / 1024;
    if (!again.ok()) std::printf("%s\n", again.error().message.c_str());
    Random random(1);
    std::vector<std::uint32_t> bits(grammars.num_words());
    double mask = 0, most = 0, accept = 0;
    int num_masks = 0;
    for (int round = 0; round < 10; ++round) {
      const auto constraint = grammars.compiler.constrain(compiled.value(), false);
      for (int step = 0; step < 100; ++step) {
        start = Clock::now();
        constraint->fill_mask(bits, kMaxMaskWork);
        const double us = micros(start);
        mask += us;
        most = std::max(most, us);
        ++num_masks;
        const TokenId token = grammars.random_token(*constraint, random, 0.2 + step * 0.01);
        start = Clock::now();
        constraint->accept(token);
        accept += micros(start);
        if (token == grammars.stop_id) break;
      }
    }
    std::printf("%-26s %10.1f %10.1f %10.0f %10.1f %10.1f %10.2f\n", name, compile_us / 1e3,
                process_us / 1e3, kib, mask / num_masks, most, accept / num_masks);
  }
}

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == glint::kGrammarProcessArgument)
    return glint::run_grammar_process();
  glint::run(argc > 1 ? std::atoi(argv[1]) : 151552);
  return 0;
}
