#include "cli/environment.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/contains.h"
#include "base/kept_environment.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

class EnvironmentVariables : public testing::Test {
 private:
  const KeptEnvironment kept_;
};

TEST_F(EnvironmentVariables, threads_come_from_the_option_then_the_variable_then_the_cpus) {
  EXPECT_EQ(resolve_threads(3, {.omp_num_threads = "7"}).value(), 3);
  EXPECT_EQ(resolve_threads({}, {.omp_num_threads = "7"}).value(), 7);
  EXPECT_EQ(resolve_threads({}, {.omp_num_threads = "4,2"}).value(), 4);
  EXPECT_EQ(resolve_threads({}, {}).value(), available_cpus());
}

TEST_F(EnvironmentVariables, impossible_numbers_of_threads_are_refused) {
  EXPECT_EQ(resolve_threads(-1, {}).error().message,
            "--threads expects a number of threads from 1 to 1024, got \"-1\"");
  EXPECT_EQ(resolve_threads({}, {.omp_num_threads = "many"}).error().message,
            "OMP_NUM_THREADS expects a number of threads from 1 to 1024, got \"many\"");
  for (const int threads : {0, 5000}) EXPECT_FALSE(resolve_threads(threads, {}).ok()) << threads;
}

TEST_F(EnvironmentVariables, hub_cache_follows_the_hub_rules) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) {
    unsetenv(name);
  }
  unsetenv("HOME");
  const std::string home = getpwuid(getuid())->pw_dir;
  EXPECT_EQ(read_environment().home, home);
  EXPECT_EQ(read_environment().hf_hub_cache, home + "/.cache/huggingface/hub");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/h/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/x/huggingface/hub");
  setenv("HF_HOME", "/f", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/f/hub");
  setenv("HF_HOME", "~/f", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/h/f/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/old");
  setenv("HF_HUB_CACHE", "/c", 1);
  EXPECT_EQ(read_environment().hf_hub_cache, "/c");
}

TEST_F(EnvironmentVariables, tokens_of_the_hub_come_from_a_variable_or_a_file) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE",
                           "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"}) {
    unsetenv(name);
  }
  const TestDir folder;
  setenv("HF_HOME", folder.path().c_str(), 1);
  EXPECT_EQ(read_environment().hf_token, "");
  folder.write("token", "hf_file\n");
  EXPECT_EQ(read_environment().hf_token, "hf_file");
  setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
  EXPECT_EQ(read_environment().hf_token, "");
  setenv("HF_TOKEN", "hf_variable", 1);
  EXPECT_EQ(read_environment().hf_token, "hf_variable");
  EXPECT_FALSE(read_environment().hf_offline);
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_FALSE(read_environment().hf_offline);
  setenv("HF_HUB_OFFLINE", "True", 1);
  EXPECT_TRUE(read_environment().hf_offline);
}

TEST_F(EnvironmentVariables, variables_of_other_servers_are_told_but_none_that_the_driver_obeys) {
  const auto is_told = [](const char* name) {
    setenv(name, "0", 1);
    const bool told = contains(read_environment().foreign, std::string(name) + "=0");
    unsetenv(name);
    return told;
  };
  EXPECT_TRUE(is_told("NCCL_DEBUG"));
  EXPECT_TRUE(is_told("VLLM_USE_V1"));
  EXPECT_FALSE(is_told("VLLM_API_KEY"));
  EXPECT_FALSE(is_told("CUDA_VISIBLE_DEVICES"));
}

TEST_F(EnvironmentVariables, variables_of_launchers_are_kept_whatever_their_names) {
  setenv("A_LAUNCHERS_RANK", "a=b", 1);
  EXPECT_EQ(read_environment().all.at("A_LAUNCHERS_RANK"), "a=b");
}

TEST_F(EnvironmentVariables, temporary_files_lie_where_tmpdir_says) {
  unsetenv("TMPDIR");
  EXPECT_EQ(read_environment().tmp_dir, "/tmp");
  setenv("TMPDIR", "/t", 1);
  EXPECT_EQ(read_environment().tmp_dir, "/t");
}

}  // namespace
}  // namespace glint
