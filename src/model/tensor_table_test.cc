#include "model/tensor_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "model/weights.h"

namespace glint {
namespace {

ModelConfig config_of(const std::string& path) {
  return read_config(GLINT_SOURCE_DIR + ("/" + path)).value();
}

TEST(TensorTable, counts_the_parameters_of_glm5_exactly) {
  const ModelConfig config = config_of("tests/data/configs/glm5.json");
  const ParameterCount count = count_parameters(config);
  EXPECT_EQ(count.main, 743'911'218'432);
  EXPECT_EQ(count.mtp, 9'952'920'576);
  EXPECT_EQ(count.total(), 753'864'139'008);
  EXPECT_EQ(count.active, 40'833'146'112);
  EXPECT_EQ(count.active - count.head, 39'881'563'392);

  std::map<TensorRole, std::int64_t> main;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (!config.is_mtp(tensor.layer)) main[tensor.role] += tensor.parameters();
  }
  EXPECT_EQ(main[TensorRole::kAttention], 12'871'532'544);
  EXPECT_EQ(main[TensorRole::kIndexer], 731'008'512);
  EXPECT_EQ(main[TensorRole::kDenseMlp], 679'477'248);
  EXPECT_EQ(main[TensorRole::kRoutedExpert], 724'775'731'200);
  EXPECT_EQ(main[TensorRole::kSharedExpert], 2'831'155'200);
  EXPECT_EQ(main[TensorRole::kRouter], 117'984'000);
  EXPECT_EQ(main[TensorRole::kEmbedding], 951'582'720);
  EXPECT_EQ(main[TensorRole::kHead], 951'582'720);
  EXPECT_EQ(main[TensorRole::kNorm], 1'164'288);
}

TEST(TensorTable, tied_embeddings_are_counted_once_and_read_for_every_token) {
  ModelConfig config = config_of("tests/data/configs/glm5.json");
  config.tie_word_embeddings = true;
  const ParameterCount count = count_parameters(config);
  EXPECT_EQ(count.main, 743'911'218'432 - 951'582'720);
  EXPECT_EQ(count.active, 40'833'146'112);
  EXPECT_EQ(count.head, 951'582'720);
}

TEST(TensorTable, names_and_shapes_are_those_of_a_real_file) {
  const ModelConfig config = config_of("models/glm5-tiny/config.json");
  Checkpoint checkpoint = Checkpoint::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  std::set<std::string> names;
  for (const ModelTensor& tensor : model_tensors(config)) {
    for (int expert = 0; expert < tensor.num_copies(); ++expert) {
      const std::string name = tensor.name_of_copy(expert);
      if (tensor.is_matrix()) {
        EXPECT_TRUE(checkpoint.weight(name, tensor.rows, tensor.cols).ok()) << name;
        names.insert(name + ".weight");
      } else {
        EXPECT_TRUE(checkpoint.vector(name, tensor.cols).ok()) << name;
        names.insert(name);
      }
    }
  }
  for (const StoredTensor& tensor : checkpoint.source().tensors()) {
    EXPECT_TRUE(names.contains(tensor.name)) << tensor.name;
  }
}

TEST(TensorTable, layers_without_an_indexer_have_none_of_its_tensors) {
  Json json = read_json_file(GLINT_SOURCE_DIR "/models/glm5-tiny/config.json").value();
  json.set("index_topk_pattern", "FSSSF");
  for (const ModelTensor& tensor : model_tensors(parse_config(json).value())) {
    if (tensor.role != TensorRole::kIndexer) continue;
    EXPECT_TRUE(tensor.layer == 0 || tensor.layer == 4 || tensor.layer == 5) << tensor.name;
  }
}

TEST(TensorTable, every_tensor_has_a_place_of_its_own_and_keeps_its_id) {
  const std::string dir = GLINT_SOURCE_DIR "/models/glm5-tiny";
  const ModelConfig config = read_config(dir + "/config.json").value();
  Checkpoint checkpoint = Checkpoint::open(dir).value();
  ThreadPool pool(1);
  ModelWeights weights = find_weights(checkpoint, config, {}, pool).value();
  std::set<const void*> places;
  visit(weights, [&](const ModelTensor& tensor, Held held) {
    const void* place = std::visit(
        [](auto at) -> const void* {
          if constexpr (std::is_same_v<decltype(at), KvHalves>) {
            return at.w_uk;
          } else {
            return at;
          }
        },
        held);
    EXPECT_TRUE(places.insert(place).second) << tensor.name;
    const int id = static_cast<int>(&tensor - weights.tensors.data());
    if (Tensor* const* vector = std::get_if<Tensor*>(&held)) {
      EXPECT_EQ((*vector)->id, id) << tensor.name;
    } else if (const KvHalves* halves = std::get_if<KvHalves>(&held)) {
      EXPECT_EQ(std::pair(halves->w_uk->id, halves->w_uk->half), std::pair(id, 0));
      EXPECT_EQ(std::pair(halves->w_uv->id, halves->w_uv->half), std::pair(id, 1));
    }
  });
  std::map<int, int> matrices;  // by id
  visit_matrices(weights, [&](const ModelTensor& tensor, const Weight& weight) {
    EXPECT_EQ(&tensor, &weights.tensors[static_cast<std::size_t>(weight.id)]);
    ++matrices[weight.id];
  });
  std::int64_t parameters = 0;
  for (std::size_t id = 0; id < weights.tensors.size(); ++id) {
    const ModelTensor& tensor = weights.tensors[id];
    parameters += tensor.parameters();
    const bool is_vector = !tensor.is_matrix() || tensor.role == TensorRole::kEmbedding;
    const bool is_kv_b = tensor.name.ends_with(".kv_b_proj");
    const int expected = is_vector ? 0
                         : is_kv_b ? 2 * config.num_attention_heads
                                   : tensor.num_copies();
    EXPECT_EQ(matrices[static_cast<int>(id)], expected) << tensor.name;
  }
  EXPECT_EQ(parameters, count_parameters(config).total());
}

TEST(TensorTable, says_how_ranks_divide_tensors_and_what_is_trained) {
  const ModelConfig config = config_of("tests/data/configs/glm5.json");
  for (const ModelTensor& tensor : model_tensors(config)) {
    const auto is = [&](std::string_view end) { return tensor.name.ends_with(end); };
    const bool of_expert = tensor.num_experts > 0,
               of_attention = tensor.role == TensorRole::kAttention;
    Split expected = Split::kWhole;
    if (is(".gate_proj") || is(".up_proj"))
      expected = of_expert ? Split::kExpertRows : Split::kRows;
    if (is(".down_proj")) expected = of_expert ? Split::kExpertCols : Split::kCols;
    if (of_attention && (is(".q_b_proj") || is(".kv_b_proj"))) expected = Split::kHeads;
    if (is(".o_proj")) expected = Split::kCols;
    if (is("lm_head") || is("embed_tokens")) expected = Split::kVocab;
    EXPECT_EQ(tensor.split, expected) << tensor.name;
    const bool is_bias = is(".e_score_correction_bias");
    EXPECT_EQ(tensor.is_trained, tensor.role != TensorRole::kIndexer && !is_bias) << tensor.name;
    EXPECT_EQ(tensor.is_f32, is_bias) << tensor.name;
  }
}

}  // namespace
}  // namespace glint
