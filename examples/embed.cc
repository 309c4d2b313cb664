// The engine without a server: two questions at once, answered in one batch.
//
//   cmake --build build/release --target embed
//   build/release/examples/embed models/glm5-tiny "What is 3 + 4?" "What is the capital of France?"
//
// Text becomes tokens (Tokenizer, ChatTemplate), tokens go to the Engine as requests, and what
// comes of them is told to a function once a step. Everything here is what `glint serve` uses, less
// HTTP.
#include <iostream>
#include <map>
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/isa.h"
#include "base/queue.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "runtime/model_executor.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/detokenizer.h"

namespace {

constexpr int kPages = 64;  // of 64 tokens: room in the KV cache for all requests together

glint::Result<std::vector<glint::TokenId>> prompt_of(const std::string& question,
                                                     const glint::ChatTemplate& chat,
                                                     const glint::Tokenizer& tokenizer) {
  const glint::Json messages(
      glint::Json::Array{glint::Json::Object{{"role", "user"}, {"content", question}}});
  const glint::Json kwargs(
      glint::Json::Object{{"add_generation_prompt", true}, {"enable_thinking", true}});
  GLINT_TRY(const std::string text, chat.render(messages, {}, kwargs));
  return tokenizer.encode(text);
}

glint::Status answer(const std::string& dir, const std::vector<std::string>& questions) {
  GLINT_TRY(const glint::Tokenizer tokenizer, glint::Tokenizer::open(dir));
  GLINT_TRY(const glint::ChatTemplate chat, glint::ChatTemplate::open(dir));

  glint::ThreadPool pool(2);
  GLINT_TRY(const glint::CpuIsa isa, glint::best_cpu_isa());
  GLINT_TRY(const auto model,
            glint::LoadedModel::load({.dir = dir}, std::make_unique<glint::CpuOps>(isa, pool)));
  GLINT_TRY_STATUS(model->reserve_pages(kPages));
  glint::ModelExecutor executor(*model, {.num_token_ids = tokenizer.vocab_size()});

  // The engine calls the function from its own thread, so what it says goes through a queue.
  glint::Queue<std::vector<glint::TokenEvent>> events;
  const int max_len = static_cast<int>(model->config().max_position_embeddings);
  glint::Engine engine({.scheduler = {.max_seq_len = max_len}, .cache = {.num_pages = kPages}},
                       executor,
                       [&](std::vector<glint::TokenEvent> step) { events.push(std::move(step)); });

  const glint::GenerationConfig& defaults = model->generation();
  std::map<glint::RequestId, std::vector<glint::TokenId>> answers;
  for (const std::string& question : questions) {
    GLINT_TRY(std::vector<glint::TokenId> prompt, prompt_of(question, chat, tokenizer));
    const glint::RequestId id = answers.size() + 1;
    GLINT_TRY_STATUS(engine.submit({.id = id,
                                    .prompt = std::move(prompt),
                                    .sampling = {.temperature = 0},
                                    .max_tokens = 200,
                                    .stop_ids = glint::stop_ids(model->config(), defaults)}));
    answers[id] = {};
  }

  for (std::size_t running = questions.size(); running > 0;) {
    const auto step = events.pop();
    for (const glint::TokenEvent& event : *step) {
      auto& tokens = answers[event.id];
      tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.stop_id) tokens.pop_back();
      if (event.finished) --running;
      if (!event.error.empty()) return glint::invalid(event.error);
    }
  }
  for (const auto& [id, tokens] : answers) {
    std::cout << "> " << questions[id - 1] << "\n" << tokenizer.decode(tokens) << "\n\n";
  }
  return glint::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: embed MODEL_DIR QUESTION...\n";
    return 2;
  }
  const glint::Status status = answer(argv[1], {argv + 2, argv + argc});
  if (!status.ok()) std::cerr << "error: " << status.error().message << "\n";
  return status.ok() ? 0 : 2;
}
