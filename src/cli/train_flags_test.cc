#include "cli/train_flags.h"

#include <gtest/gtest.h>

#include <set>

#include "base/str.h"
#include "base/test_dir.h"
#include "checkpoint/test_files.h"
#include "cli/train_sizes.h"

namespace glint {
namespace {

Result<TranslatedTrainArgs> translate(std::string_view line) {
  const std::vector<std::string> words = split_words(line).value();
  return translate_train_args(words);
}

TEST(TrainFlags, NoNameIsInTwoRows) {
  std::set<std::string_view> seen;
  for (const TrainFlag& flag : train_flags()) {
    for (const std::string_view name : split(flag.names, ' ')) {
      EXPECT_TRUE(name.empty() || seen.insert(name).second) << name;
    }
  }
}

TEST(TrainFlags, TheLastOfTwoCounts) {
  const auto out = translate("--lr 1e-6 --max_tokens_per_gpu=512 --lr 1e-4").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--batch-tokens=512", "--lr=1e-4"}));
}

TEST(TrainFlags, SwitchesCanBeTurnedOff) {
  const auto out = translate("--apply-chat-template --no-apply-chat-template").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--apply-chat-template=false"}));
}

TEST(TrainFlags, ARunGoesOnAsItIsTold) {
  EXPECT_EQ(translate("--resume").value().options, (std::vector<std::string>{"--resume=true"}));
}

TEST(TrainFlags, PromptsOfAnEvaluationMayHaveAName) {
  const auto out = translate("--eval-prompt-data aime /data/aime.jsonl").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--eval-prompt-data=/data/aime.jsonl"}));
  EXPECT_EQ(out.meaningless.size(), 1u);
  EXPECT_EQ(translate("--eval-prompt-data a.jsonl").value().meaningless.size(), 0u);
  EXPECT_FALSE(translate("--eval-prompt-data a 1.jsonl b 2.jsonl").ok());
}

TEST(TrainFlags, EachServerIsAnOption) {
  const auto out = translate("--rollout-external --rollout-external-engine-addrs a:1 b:2").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--rollout-external-engine-addrs=a:1",
                                                   "--rollout-external-engine-addrs=b:2"}));
}

TEST(TrainFlags, ValuesThatNeedMoreThanIsBuiltArePlanned) {
  EXPECT_TRUE(
      translate("--kl-coef 0.00 --optimizer adam --tool-key tools").value().planned.empty());
  const auto out =
      translate("--kl-coef 0.01 --use-unbiased-kl --kl-loss-coef 0.01 --use-kl-loss").value();
  ASSERT_EQ(out.planned.size(), 2u);
  EXPECT_EQ(out.planned[0], "--kl-coef 0.01: a KL as a part of rewards");
  EXPECT_EQ(out.options, (std::vector<std::string>{"--kl-loss-coef=0.01"}));
}

TEST(TrainFlags, TheFilterOfDapoIsDynamicSampling) {
  const std::string filters = "--dynamic-sampling-filter-path a.dynamic_sampling_filters.";
  const auto out = translate(filters + "check_reward_nonzero_std").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--dynamic-sampling-rounds=1000"}));
  EXPECT_TRUE(out.planned.empty());
  const auto fewer =
      translate(filters + "check_reward_nonzero_std --dynamic-sampling-rounds 5").value();
  EXPECT_EQ(fewer.options, (std::vector<std::string>{"--dynamic-sampling-rounds=5"}));
  EXPECT_EQ(translate(filters + "check_no_aborted").value().planned.size(), 1u);
}

TEST(TrainFlags, AKlCountsOnlyWhereItIsUsed) {
  const auto out = translate("--kl-loss-coef 0.01").value();
  EXPECT_TRUE(out.options.empty());
  EXPECT_EQ(out.meaningless.begin()->second, " --kl-loss-coef 0.01");
  const auto recipe = translate("--kl-loss-coef 0.00 --kl-loss-type low_var_kl").value();
  EXPECT_TRUE(recipe.meaningless.empty() && recipe.options.empty());
}

TEST(TrainFlags, AConstantRateHasNoLeast) {
  const auto out = translate("--lr-decay-style constant --min-lr 1e-7").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--lr-decay-style=constant"}));
  EXPECT_EQ(out.meaningless.at("--lr-decay-style is constant"), " --min-lr 1e-7");
  EXPECT_TRUE(translate("--lr-decay-style constant --min-lr 0").value().meaningless.empty());
  EXPECT_EQ(translate("--min-lr 1e-7").value().options.size(), 1u);
}

TEST(TrainFlags, AsManyPromptsAsAreWantedAreNoMore) {
  const auto same = translate("--over-sampling-batch-size 8 --rollout-batch-size 8").value();
  EXPECT_EQ(same.options, (std::vector<std::string>{"--rollout-batch-size=8"}));
  EXPECT_TRUE(same.meaningless.empty());
  EXPECT_EQ(translate("--over-sampling-batch-size 9 --rollout-batch-size 8").value().options.size(),
            2u);
}

TEST(TrainFlags, AnEngineThatComputesTheSameIsNotCorrected) {
  auto out = translate("--use-tis --tis-clip 4 --tis-clip-low 0.5 --lr 1").value();
  EXPECT_EQ(out.options.size(), 4u);
  leave_out_corrections(out);
  EXPECT_EQ(out.options, (std::vector<std::string>{"--lr=1"}));
  EXPECT_EQ(out.meaningless.begin()->second, " --use-tis --tis-clip 4 --tis-clip-low 0.5");
}

TEST(TrainFlags, EpochsCountOnlyWithoutRounds) {
  const auto out = translate("--num-epoch 2 --num-steps-per-rollout 4").value();
  EXPECT_EQ(out.options, (std::vector<std::string>{"--num-epoch=2", "--num-steps-per-rollout=4"}));
  const auto both = translate("--num-epoch 2 --num-rollout 3").value();
  EXPECT_EQ(both.options, (std::vector<std::string>{"--num-rollout=3"}));
  EXPECT_EQ(both.meaningless.at("--num-rollout is given"), " --num-epoch 2");
}

TEST(TrainFlags, RolloutsHaveTheirOwnSeed) {
  for (const char* const line : {"--seed 1 --rollout-seed 2", "--rollout-seed 2 --seed 1"}) {
    const auto out = translate(line).value();
    EXPECT_EQ(out.options, (std::vector<std::string>{"--seed=2"}));
    EXPECT_EQ(out.meaningless.at("--rollout-seed is given"), " --seed 1");
  }
  EXPECT_EQ(translate("--seed 1").value().options, (std::vector<std::string>{"--seed=1"}));
}

TEST(TrainFlags, TokensOfAGpuAreThoseOfEachRankOfAContext) {
  auto out = translate("--max-tokens-per-gpu 512 --context-parallel-size 2").value();
  ASSERT_TRUE(divide_among_ranks(read_sizes(out).value(), out).ok());
  EXPECT_EQ(out.options[0], "--batch-tokens=1024");
}

TEST(TrainFlags, EvaluationsHaveSamplingOfTheirOwn) {
  const auto out = translate(
                       "--eval-top-p 0.7 --eval-max-response-len 9 --eval-min-new-tokens 2"
                       " --eval-config e.yaml")
                       .value();
  EXPECT_EQ(out.options,
            (std::vector<std::string>{"--eval-top-p=0.7", "--eval-max-response-len=9"}));
  ASSERT_EQ(out.planned.size(), 2u);
  EXPECT_EQ(out.planned[0], "--eval-min-new-tokens 2: a least length of answers");
}

TEST(TrainFlags, WhatIsLeftOutIsAsThere) {
  const std::vector<std::string> all = default_options({{"eps-clip", "0.3"}, {"lr", "1"}});
  EXPECT_EQ(all.size(), 6u);
  EXPECT_EQ(default_options({{"eval-prompt-data", "aime.jsonl"}}).size(), 7u);
  EXPECT_EQ(all[0], "--eps-clip-high=0.3");
  EXPECT_EQ(default_options({{"eps-clip-high", "0.4"}})[0], "--input-key=input");
}

TEST(TrainFlags, TheModelIsThatOfItsConfig) {
  const auto out = translate(
                       "--spec slime_plugins.models.glm5.glm5 get_glm5_spec --swiglu"
                       " --no-position-embedding --moe-layer-freq [0]*3+[1]*75"
                       " --moe-router-bias-update-rate 0 --moe-aux-loss-coeff 0.001")
                       .value();
  EXPECT_EQ(out.meaningless.size(), 1u);
  EXPECT_EQ(out.planned,
            (std::vector<std::string>{"--moe-aux-loss-coeff 0.001: a loss that balances experts"}));
}

TEST(TrainFlags, TheRecipeOfMilesPassesThemOn) {
  const auto out = translate(
                       "--num-gpus-per-node 8 --colocate --use-fault-tolerance"
                       " --dump-details /out/details --disable-weights-backuper"
                       " --no-check-for-nan-in-loss-and-grad --loss-type policy_loss")
                       .value();
  EXPECT_TRUE(out.options.empty());
  EXPECT_TRUE(out.planned.empty());
  EXPECT_EQ(out.meaningless.size(), 6u);
}

TEST(TrainFlags, TheReferenceIsTheModelThatTrainingBeginsWith) {
  const TestDir dir;
  const auto write = [&](const std::string& model, const char* bytes) {
    dir.write(model + "/config.json", "{}");
    dir.write(model + "/model.safetensors", safetensors_file({{"x", "U8", "[1]", bytes}}));
  };
  const std::string snapshot = "models--org--a/snapshots/0123";
  for (const std::string& model : {std::string("a"), std::string("copy"), snapshot}) {
    write(model, "x");
  }
  write("trained", "y");
  write("renamed", "x");
  dir.write("renamed/config.json", "{\"_name_or_path\": \"a\"}");
  dir.write("models--org--a/refs/main", "0123");
  const auto check = [&](const std::string& model, const std::string& reference) {
    const auto args =
        translate(str("--hf-checkpoint '", model, "' --ref-load '", reference, "'")).value();
    EXPECT_EQ(args.meaningless.size(), 1u);
    const Status status = check_reference(args, dir.path());
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(check(dir / "a", dir / "a/"), "");
  EXPECT_EQ(check(dir / "a", dir / "copy"), "");
  EXPECT_EQ(check("org/a", dir / snapshot), "");
  EXPECT_EQ(check(dir / "a", "org/a"), "");
  EXPECT_EQ(check(dir / "a", dir / "a_torch_dist"), "");
  for (const char* other : {"trained", "renamed"}) {
    EXPECT_TRUE(check(dir / "a", dir / other)
                    .starts_with(str("--ref-load ", dir / other, " differs from --hf-checkpoint ",
                                     dir / "a in config.json, division into files, or weights; ")))
        << other;
  }
}

TEST(TrainFlags, MistakesAreNamed) {
  EXPECT_NE(translate("--rollout-batchsize 3").error().message.find("--rollout-batch-size"),
            std::string::npos);
  EXPECT_NE(translate("--lr").error().message.find("--lr needs a value"), std::string::npos);
  EXPECT_NE(translate("8").error().message.find("is no option"), std::string::npos);
  EXPECT_FALSE(split_words("a 'b").ok());
  EXPECT_EQ(split_words("a  \"b c\" ''").value(), (std::vector<std::string>{"a", "b c", ""}));
}

}  // namespace
}  // namespace glint
