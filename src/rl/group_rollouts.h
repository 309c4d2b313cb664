// GroupRollouts: groups of answers by the engine, graded against each other. A function of weights,
// data, options and the seed: never of threads or time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rl/grpo_batch.h"
#include "rl/prompt_data.h"
#include "rl/rewards/reward.h"
#include "rl/tool_turns.h"
#include "text/tokenizer/tokenizer.h"
#include "train/row_order.h"

namespace glint {

struct AnswerToGrade {
  std::string prompt, response;
  Json label;  // a text or a number, as the row has it
};
// `key`: the member that is the reward, if it is an object. Fails with kUnavailable when `goes_on`
// says false meanwhile.
using RemoteGrader = std::function<Result<std::vector<double>>(
    const std::vector<AnswerToGrade>&, const std::string& key,
    const std::function<bool()>& goes_on)>;

// The form of an answer, and how it goes on.
struct AnswerRules {
  // A shape at its beginning, after this prompt; empty: any.
  std::function<std::shared_ptr<TokenConstraint>(std::span<const TokenId> prompt)> constrain = {};
  const ToolTurns* tools = nullptr;  // answers the calls of tools; null: nobody does
  int max_turns = 16;
};

struct GroupOptions {
  int rollout_batch_size = 32;  // prompts of a round
  int n_samples_per_prompt = 8;
  // Above rollout_batch_size: so many prompts are asked, and when enough of their groups are
  // finished the others stop. With `partial` they go on in the next round, else they are dropped.
  int over_sampling_batch_size = 0;
  bool partial = false;
  bool mask_offpolicy = false;  // tokens of older weights are not trained on
  // A group with a token that would be more rounds behind the weights that train on it begins anew.
  std::optional<int> max_staleness = {};
  RolloutOptions rollout = {};
  AnswerRules rules = {};
  bool std_normalization = true;
  // Groups whose rewards are all equal are replaced by other prompts', until the batch is full or
  // so many times its prompts were asked. 0: they stay, and teach nothing.
  int dynamic_sampling_rounds = 0;
  // Overlong shaping: how many tokens before the limit it begins, and what the limit itself costs.
  // 0: none.
  int overlong_margin = 0;
  double overlong_penalty = 1;
  std::uint64_t seed = 42;
  RemoteGrader remote = {};  // grades rows of remote_rm, and where there is no rule all others
  std::string reward_key = {}, eval_reward_key = {};  // its key, and that of evaluations
};

struct GrpoEvalOptions {
  int samples = 1;  // answers to each prompt
  double temperature = 1, top_p = 1;
  int top_k = 0;
  int max_tokens = 0;  // of an answer
};

// Where rollouts go on.
struct RolloutStart {
  std::uint64_t position = 0;  // the first prompt of the order that was not asked yet
  std::vector<AnswerGroup> begun = {};
  std::int32_t version = 0;     // rounds that the engine's weights have learned
  std::int32_t trained_at = 0;  // and that those will have that learn from the answers
};

class GroupRollouts {
 public:
  // Everything outlives this; `reward` grades rows that name none themselves, null where another
  // program does.
  GroupRollouts(RolloutEngine& engine, const Tokenizer& tokenizer, const Reward* reward,
                const GroupOptions& options);

  // Answers to the groups that are begun and to the prompts that follow. `on_tokens`: false ends
  // what runs, with kUnavailable.
  Result<GrpoBatch> roll_out(const std::vector<TrainPrompt>& prompts, RowOrder& order,
                             RolloutStart start, const OnRolloutTokens& on_tokens);

  // The mean reward of answers to each prompt. The same draws each time.
  Result<GrpoEval> evaluate(const std::vector<TrainPrompt>& prompts, const GrpoEvalOptions& options,
                            const OnRolloutTokens& on_tokens);

 private:
  using Rows = std::vector<const TrainPrompt*>;

  // `how` for the answers to `rows`, as many to each.
  RolloutOptions with_rules(RolloutOptions how, const Rows& rows,
                            std::size_t answers_to_each) const;

  void add_new_groups(std::vector<AnswerGroup>& groups, const RolloutStart& start,
                      GrpoBatch& batch) const;
  Status run(std::vector<AnswerGroup>& groups, const Rows& rows, const RolloutStart& start,
             int wanted, const OnRolloutTokens& on_tokens);
  // Whether each group is graded now. Finished ones are; but where rewards do not decide which
  // groups get the `room` places that are left, a group that goes on in the next round is graded
  // there.
  std::vector<bool> groups_to_grade(const std::vector<AnswerGroup>& groups, int room) const;
  // Adds a group of finished answers to what is told, and if it teaches to what is learned from.
  bool take(const TrainPrompt& row, AnswerGroup group, std::span<const double> rewards,
            const RolloutStart& start, GrpoBatch& batch) const;
  GradedAnswer graded(const TrainPrompt& row, Rollout rollout, const RolloutStart& start) const;
  // One reward for each rollout; `rows` has the prompt of each.
  Result<std::vector<double>> grade(const Rows& rows, const std::vector<const Rollout*>& rollouts,
                                    const std::string& key, const OnRolloutTokens& on_tokens) const;
  std::string text_of(const Rollout& rollout) const;
  AnswerSample sample_of(const TrainPrompt& prompt, const Rollout& rollout, double reward) const;

  RolloutEngine& engine_;
  const Tokenizer& tokenizer_;
  const Reward* reward_;
  const GroupOptions options_;
};

}  // namespace glint
