#include <gtest/gtest.h>

#include "backends/cpu/isa.h"
#include "base/json.h"
#include "doctor/findings.h"
#include "doctor/look.h"
#include "model/config.h"
#include "model/release.h"

namespace glint {
namespace {

TEST(Doctor, the_sizes_of_glm5_are_those_of_its_tensors) {
  const Json json = read_json_file(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const ModelConfig config = parse_config(json).value();
  EXPECT_EQ(kGlm5[0].bytes, release_bytes(config, Release::kBF16, true));
  EXPECT_EQ(kGlm5[1].bytes, release_bytes(config, Release::kFp8, true));
  EXPECT_EQ(kGlm5[2].bytes, release_bytes(config, Release::kNvfp4, true));
}

TEST(Doctor, kernels_by_the_flags_are_those_that_run) {
  const auto best = best_cpu_isa();
  EXPECT_EQ(look_at_cpu(MachineFiles()).isa, best.ok() ? name_of(best.value()) : "");
}

}  // namespace
}  // namespace glint
