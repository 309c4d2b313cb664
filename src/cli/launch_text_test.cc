#include "cli/launch_text.h"

#include <gtest/gtest.h>

#include "base/yaml.h"

namespace glint {
namespace {

const Json& at(const Json& from, std::initializer_list<const char*> path) {
  const Json* value = &from;
  for (const char* name : path) {
    value = value->find(name);
    if (!value) {
      ADD_FAILURE() << "no " << name;
      return from;
    }
  }
  return *value;
}

TEST(KubernetesManifest, is_a_group_that_restarts_as_one) {
  const std::string text = kubernetes_manifest(
      {.model = "/models/it's", .words = {"--tp", "4"}, .machines = 4, .memory = (3 << 20) + 1});
  const std::size_t second = text.find("---\n");
  ASSERT_NE(second, text.npos);
  const Json set = parse_yaml(text.substr(0, second)).value();
  EXPECT_EQ(at(set, {"kind"}), Json("LeaderWorkerSet"));
  const Json& group = at(set, {"spec", "leaderWorkerTemplate"});
  EXPECT_EQ(at(group, {"size"}), Json(4));
  EXPECT_EQ(at(group, {"restartPolicy"}), Json("RecreateGroupOnPodRestart"));
  for (const char* role : {"leaderTemplate", "workerTemplate"}) {
    const Json& one = at(group, {role, "spec", "containers"}).as_array().front();
    EXPECT_EQ(at(one, {"command"}), Json(Json::Array{"glint", "serve", "/models/it's", "--host",
                                                     "0.0.0.0", "--port", "8000", "--tp", "4"}));
    EXPECT_EQ(at(one, {"resources", "requests", "memory"}), Json("4Mi"));
    EXPECT_EQ(at(group, {role, "spec", "terminationGracePeriodSeconds"}), Json(90));
    const bool leads = role == std::string("leaderTemplate");
    EXPECT_EQ(one.find("readinessProbe") != nullptr, leads);  // the others serve nothing
  }
  const Json service = parse_yaml(text.substr(second + 4)).value();
  EXPECT_EQ(at(service, {"spec", "selector"}), at(group, {"leaderTemplate", "metadata", "labels"}));
}

TEST(KubernetesManifest, has_shared_memory_for_several_gpus) {
  for (const int gpus : {1, 8}) {
    const std::string text = kubernetes_manifest({.model = "/m", .gpus = gpus});
    const Json set = parse_yaml(text.substr(0, text.find("---\n"))).value();
    const Json& pod = at(set, {"spec", "leaderWorkerTemplate", "leaderTemplate", "spec"});
    const Json& one = at(pod, {"containers"}).as_array().front();
    EXPECT_EQ(at(pod, {"volumes"}).as_array().size(), gpus > 1 ? 2u : 1u);
    EXPECT_EQ(at(one, {"volumeMounts"}).as_array().back() ==
                  Json(Json::Object{{"name", "shm"}, {"mountPath", "/dev/shm"}}),
              gpus > 1);
  }
}

TEST(SlurmScript, starts_a_process_a_node) {
  const std::string text = slurm_script({.model = "zai-org/GLM-5", .memory = 1 << 20, .gpus = 8});
  for (const char* line :
       {"#SBATCH --nodes=1\n", "#SBATCH --mem=1M\n", "--gpus-per-node=8\n",
        "#SBATCH --cpus-per-gpu=8\n", "glint serve 'zai-org/GLM-5' --host 0.0.0.0 --port 8000"}) {
    EXPECT_NE(text.find(line), text.npos) << text;
  }
  EXPECT_NE(slurm_script({.model = "/it's", .words = {"--tp", "2"}, .machines = 2})
                .find("serve '/it'\\''s' --tp 2 "),
            text.npos);
}

}  // namespace
}  // namespace glint
