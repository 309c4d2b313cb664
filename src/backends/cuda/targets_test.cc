#include "backends/cuda/targets.h"

#include <gtest/gtest.h>

namespace glint::cuda {
namespace {

TEST(Targets, code_runs_on_later_devices_of_its_major_capability) {
  EXPECT_TRUE(runs_on("80", 80));
  EXPECT_TRUE(runs_on("80", 89));
  EXPECT_FALSE(runs_on("89", 80));
  EXPECT_FALSE(runs_on("80", 90));
  EXPECT_TRUE(runs_on("80 100", 103));
  EXPECT_FALSE(runs_on("", 90));
}

TEST(Targets, code_for_an_architecture_alone_runs_on_no_other) {
  EXPECT_TRUE(runs_on("80 90a", 90));
  EXPECT_FALSE(runs_on("100a", 103));
  EXPECT_TRUE(runs_on("120f", 121)) << "a family";
}

TEST(Targets, a_device_without_code_is_refused_in_a_sentence) {
  EXPECT_TRUE(check_target("CUDA device 0", 90, "80 90a").ok());
  EXPECT_EQ(check_target("CUDA device 0 (NVIDIA B200)", 100, "80 90a").error().message,
            "CUDA device 0 (NVIDIA B200) is sm_100, and this build has kernels for 80 90a only; "
            "build with -DGLINT_CUDA_TARGETS=100, or run with --backend cpu");
  EXPECT_EQ(check_target("CUDA device 0 (NVIDIA H200)", 90, "80").error().message,
            "CUDA device 0 (NVIDIA H200) is sm_90, and this build has kernels for 80 only; build "
            "with -DGLINT_CUDA_TARGETS=90a, or run with --backend cpu")
      << "kernels of 9.0 are not compiled for 90";
  EXPECT_EQ(check_target("CUDA device 1 (Tesla T4)", 75, "80").error().message,
            "CUDA device 1 (Tesla T4) is sm_75, and kernels need sm_80 or later; run with "
            "--backend cpu");
}

TEST(Targets, devices_that_kernels_never_ran_on_are_named) {
  EXPECT_EQ(unmeasured("CUDA device 0", 90), "");
  EXPECT_NE(unmeasured("CUDA device 0 (NVIDIA B200)", 100).find("never run"), std::string::npos);
}

}  // namespace
}  // namespace glint::cuda
