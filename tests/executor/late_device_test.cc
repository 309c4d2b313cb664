// The executor on a device that is not the host: its memory cannot be read in place, and every op
// and copy runs as late as it may. The bits are the host's.
#include "executor/harness.h"
#include "ops/testing/late_ops.h"

namespace glint {
namespace {

std::unique_ptr<LoadedModel> load_on(std::unique_ptr<Ops> ops) {
  auto model = LoadedModel::load({.dir = kModelDir, .with_mtp = true}, std::move(ops));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(model).value();
}

void expect_same(const std::map<RequestId, Outcome>& late,
                 const std::map<RequestId, Outcome>& host) {
  for (const auto& [id, expected] : host) {
    const Outcome& found = late.at(id);
    EXPECT_EQ(found.tokens, expected.tokens) << "request " << id;
    EXPECT_EQ(found.finished, expected.finished) << "request " << id;
    ASSERT_EQ(found.logprobs.size(), expected.logprobs.size()) << "request " << id;
    for (std::size_t i = 0; i < expected.logprobs.size(); ++i) {
      EXPECT_EQ(found.logprobs[i].logprob, expected.logprobs[i].logprob) << id << ", token " << i;
    }
    EXPECT_EQ(found.extras.routed_experts, expected.extras.routed_experts) << "request " << id;
    EXPECT_EQ(found.extras.selected_keys, expected.extras.selected_keys) << "request " << id;
  }
}

TEST(LateDevice, gives_the_bits_of_the_host) {
  std::vector<Request> requests = mixed_requests(4, 40, 12);
  for (Request& request : requests) request.want.top_logprobs = 2;
  requests[0].want.routed_experts = true;
  requests[1].want.selected_keys = true;
  const auto late = load_on(std::make_unique<LateOps>(host_backend().make(2)));
  const auto host = load_on(host_backend().make(2));
  for (const HarnessOptions& options :
       {HarnessOptions{.num_pages = 20}, HarnessOptions{.num_pages = 20, .max_drafts = 3},
        HarnessOptions{.num_pages = 6, .max_drafts = 2, .max_step_tokens = 33, .depth = 2}}) {
    expect_same(Harness(*late, options).run(requests), Harness(*host, options).run(requests));
  }
}

}  // namespace
}  // namespace glint
