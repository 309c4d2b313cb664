#include "model/model_partition.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

ModelConfig tiny_config() {
  return read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json")).value();
}

TEST(ModelPartition, every_layer_and_expert_has_one_place) {
  const ModelConfig config = tiny_config();
  for (const MeshShape& shape : {MeshShape{}, MeshShape{.ep = 4, .dp = 4},
                                 MeshShape{.ep = 3, .pp = 2, .dp = 3}, MeshShape{.dp = 2}}) {
    std::vector<int> layers(config.num_hidden_layers), experts(config.n_routed_experts);
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      const ModelPartition plan = plan_partition(config, shape, rank).value();
      if (plan.replica == 0) {
        for (int i = plan.layers.begin; i < plan.layers.end; ++i) ++layers[i];
      }
      if (plan.stage > 0 || (shape.ep == 1 && plan.replica > 0)) continue;
      for (int e = 0; e < plan.experts.count; ++e) ++experts[plan.experts.first + e];
    }
    EXPECT_EQ(layers, std::vector<int>(layers.size(), 1)) << describe(shape);
    EXPECT_EQ(experts, std::vector<int>(experts.size(), 1)) << describe(shape);
  }
}

TEST(ModelPartition, the_last_stage_may_have_other_layers) {
  ModelConfig config = tiny_config();
  config.num_hidden_layers = 78;
  const auto sizes = [&](const MeshShape& shape) {
    std::vector<int> all;
    for (int rank = 0; rank < shape.pp; ++rank)
      all.push_back(plan_partition(config, shape, rank).value().layers.size());
    return all;
  };
  EXPECT_EQ(sizes({.pp = 4}), (std::vector{19, 20, 19, 20}));
  EXPECT_EQ(sizes({.pp = 4, .last_stage_layers = 18}), (std::vector{20, 20, 20, 18}));
  EXPECT_EQ(sizes({.pp = 4, .last_stage_layers = 75}), (std::vector{1, 1, 1, 75}));
}

TEST(ModelPartition, tensors_outside_the_layers_are_at_the_ends) {
  ModelConfig config = tiny_config();
  const MeshShape shape = {.pp = 3};
  for (const auto& [with_mtp, is_tied] : {std::pair(true, false), {false, false}, {false, true}}) {
    config.tie_word_embeddings = is_tied;
    for (const ModelTensor& tensor : model_tensors(config)) {
      int holders = 0;
      for (int rank = 0; rank < 3; ++rank) {
        holders += plan_partition(config, shape, rank).value().holds(tensor, config, with_mtp);
      }
      const bool is_twice = tensor.role == TensorRole::kEmbedding && (with_mtp || is_tied);
      const bool is_nowhere = config.is_mtp(tensor.layer) && !with_mtp;
      EXPECT_EQ(holders, is_twice ? 2 : is_nowhere ? 0 : 1) << tensor.name;
    }
  }
}

TEST(ModelPartition, refuses_what_cannot_be_in_one_sentence) {
  const ModelConfig config = tiny_config();
  const auto refusal = [&](const MeshShape& shape) {
    const auto plan = plan_partition(config, shape, 0);
    return plan.ok() ? "<ok>" : plan.error().message;
  };
  EXPECT_EQ(refusal({.ep = 2, .dp = 4}),
            "ep is 2, but experts are shared by all 4 ranks of a stage or by none; set ep to 4 or "
            "to 1");
  EXPECT_EQ(refusal({.ep = 2}),
            "ep is 2, but experts are shared by all 1 ranks of a stage or by none; set ep to 1");
  EXPECT_EQ(refusal({.cp = 4, .dp = 6}),
            "cp is 4, but must divide dp, which is 6: as many replicas share each sequence; set cp "
            "to 6, or dp to 4");
  EXPECT_EQ(refusal({.pp = 100}), str("pp is 100, but the model has ", config.num_hidden_layers,
                                      " layers; every stage needs one"));
  for (const auto& [pp, last] : {std::pair(1, 1), std::pair(3, config.num_hidden_layers - 1)}) {
    EXPECT_EQ(refusal({.pp = pp, .last_stage_layers = last}),
              str("the last of ", pp, pp == 1 ? " stage has " : " stages has ", last, " of ",
                  config.num_hidden_layers,
                  " layers; every stage needs one, and the others all that are left"));
  }
  EXPECT_EQ(refusal({.ep = 512, .dp = 512}),
            str("ep is 512, but the model has ", config.n_routed_experts,
                " routed experts; every rank needs one"));
  EXPECT_EQ(refusal({.dp = 0}), "dp 0: each must be 1 or more, and the ranks at most 1024 in all");
  EXPECT_EQ(refusal({.tp = 3}),
            "tp is 3, but must divide the model's num_attention_heads (4); set it to 2");
  EXPECT_EQ(refusal({.tp = 2, .ep = 2, .dp = 2}),
            "ep is 2, but experts are shared by all 4 ranks of a stage or by none; set ep to 4 or "
            "to 1");
  EXPECT_EQ(refusal({.moves_experts = true}),
            "experts move between ranks that share them, but ep is 1; set it to more");
  EXPECT_EQ(refusal({.ep = 2, .dp = 2, .redundant_experts = 2}),
            "redundant experts are 2; they must be 0 or more, and need experts that move");
  EXPECT_EQ(refusal({.ep = 2, .dp = 2, .moves_experts = true, .redundant_experts = 17}),
            "redundant experts are 17, but 16 put every expert on each of 2 ranks; set it to 16 or "
            "less");
  EXPECT_EQ(
      refusal({.tp = 2, .reduce_slices = 6}),
      "--reduce-slices is 6; it must be --tp (2) or 2, 4, 8, .. times as many, and at most 1024");
  EXPECT_EQ(refusal({.reduce_slices = 1024}),
            "reduce-slices is 1024, but must divide the model's columns of "
            "model.layers.0.mlp.down_proj (512); set it to 512");
}

TEST(ModelPartition, members_of_a_replica_may_share_whole_experts) {
  const ModelConfig config = tiny_config();
  std::vector<int> next(2);
  for (int rank = 0; rank < 8; ++rank) {
    const MeshShape shape = {
        .tp = 2, .ep = 4, .pp = 2, .dp = 2, .moves_experts = true, .redundant_experts = 3};
    const ModelPartition plan = plan_partition(config, shape, rank).value();
    EXPECT_EQ(plan.experts.first, next[plan.stage]);
    next[plan.stage] += plan.experts.count;
    EXPECT_EQ(plan.num_expert_slots, config.n_routed_experts + 3);
    EXPECT_EQ(plan.slots_of(1, config.n_routed_experts),
              first_slots(config.n_routed_experts, config.n_routed_experts + 3));
    for (const ModelTensor& tensor : model_tensors(config)) {
      const bool is_expert =
          tensor.role == TensorRole::kRoutedExpert || tensor.role == TensorRole::kSharedExpert;
      EXPECT_EQ(plan.is_whole(tensor), is_expert || tensor.split == Split::kWhole) << tensor.name;
    }
  }
  EXPECT_EQ(next, (std::vector<int>(2, config.n_routed_experts + 3)));
}

TEST(ModelPartition, members_of_a_replica_divide_its_heads) {
  const ModelConfig config = tiny_config();
  const MeshShape shape = {.tp = 2, .pp = 2, .dp = 2, .reduce_slices = 8};
  for (int rank = 0; rank < 8; ++rank) {
    const ModelPartition plan = plan_partition(config, shape, rank).value();
    EXPECT_EQ(plan.tp_rank, rank % 2);
    EXPECT_EQ(plan.replica, rank / 2 % 2);
    EXPECT_EQ(plan.stage, rank / 4);
    EXPECT_EQ(plan.heads.first, rank % 2 * 2);
    EXPECT_EQ(plan.heads.count, 2);
    EXPECT_EQ(plan.own_slices(), 4);
  }
}

}  // namespace
}  // namespace glint
