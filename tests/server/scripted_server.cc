// A server for tests of clients: the real HTTP API over an engine whose executor says what the
// prompt asks for: the text after the last "SAY:" of the prompt, up to the assistant's turn. So a
// test in any language decides what the model answers.
//
//   scripted_server MODEL_DIR [--step-ms N] [--api-key KEY] [--max-waiting N]
//
// Prints "port N", and serves until its input ends.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "engine/fake_executor.h"
#include "server/server.h"

namespace glint {
namespace {

std::string asked_for(const std::string& prompt) {
  const std::size_t say = prompt.rfind("SAY:");
  if (say == std::string::npos) return "Hello from the script.";
  const std::size_t begin = say + 4, end = prompt.find("<|assistant|>", begin);
  return prompt.substr(begin, end == std::string::npos ? end : end - begin);
}

struct Arguments {
  std::string model;
  int step_ms = 0, max_waiting = 4096;
  std::vector<std::string> keys = {};
};

Arguments parse(int argc, char** argv) {
  Arguments args = {.model = argv[1]};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--step-ms") args.step_ms = std::atoi(argv[i + 1]);
    if (name == "--max-waiting") args.max_waiting = std::atoi(argv[i + 1]);
    if (name == "--api-key") args.keys.push_back(argv[i + 1]);
  }
  return args;
}

int run(const Arguments& args) {
  const Tokenizer tokenizer = Tokenizer::open(args.model).value();
  FakeExecutor executor({.info = {.vocab_size = 3712, .max_seq_len = 4096},
                         .num_pages = 1024,
                         .check_rows = false,
                         .script =
                             [&](const Request& request) {
                               const std::string prompt = tokenizer.decode(request.prompt);
                               return tokenizer.encode(asked_for(prompt)).value();
                             },
                         .step_seconds = args.step_ms / 1e3,
                         .sleep = args.step_ms > 0});
  auto server =
      Server::listen({.served_names = {"glm5-tiny", args.model},
                      .model_path = args.model,
                      .max_model_len = 4096,
                      .access = {.api_keys = args.keys},
                      .grammars = {.command = {"/proc/self/exe", kGrammarProcessArgument}},
                      .version = "0"});
  if (!server.ok()) {
    std::cerr << server.error().message << "\n";
    return 1;
  }
  const Status opened = server.value()->open(
      {.tokenizer = tokenizer,
       .chat_template = ChatTemplate::open(args.model).value(),
       .stop_ids = {3655, 3662, 3664},
       .executor = &executor,
       .engine = {.cache = {.num_pages = 1024}, .max_waiting = args.max_waiting}});
  if (!opened.ok()) {
    std::cerr << opened.error().message << "\n";
    return 1;
  }
  std::cout << "port " << server.value()->port() << std::endl;
  while (std::cin.get() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string(glint::kGrammarProcessArgument))
    return glint::run_grammar_process();
  if (argc < 2) {
    std::cerr << "usage: scripted_server MODEL_DIR [--step-ms N] [--api-key KEY] "
                 "[--max-waiting N]\n";
    return 2;
  }
  return glint::run(glint::parse(argc, argv));
}
