// The planned memory of steps, against the memory that they took.
#include "runtime/step_memory.h"

#include "executor/harness.h"

namespace glint {
namespace {

TEST(StepBytes, are_enough_for_a_full_step_and_not_far_more) {
  for (const int tokens : {512, 2000}) {
    const std::unique_ptr<LoadedModel> model = load_model(kModelDir);
    std::vector<Request> requests;
    for (int i = 0; i < 5; ++i) {
      Request request = {.id = static_cast<RequestId>(i + 1), .max_tokens = 4};
      while (static_cast<int>(request.prompt.size()) < tokens / 5) {
        const auto more = prompt_of(i, 200);
        request.prompt.own().insert(request.prompt.own().end(), more.begin(), more.end());
      }
      requests.push_back(request);
    }
    Harness(*model, {.num_pages = 300, .max_drafts = 2, .max_step_tokens = tokens}).run(requests);
    const std::int64_t planned = step_bytes(
        model->config(),
        {.max_step_tokens = tokens, .max_running = 5, .max_drafts = 2, .max_seq_len = 600});
    const auto taken = static_cast<std::int64_t>(model->arena_bytes());
    EXPECT_LE(taken, planned) << tokens;
    EXPECT_GE(taken * 3, planned) << tokens;
  }
}

}  // namespace
}  // namespace glint
