// The commands of the program, in the order of `glint --help`: one line here and one file,
// cmd_x.cc, each.
#pragma once

#include <vector>

#include "cli/command.h"

namespace glint {

Command generate_command();
Command chat_command();
Command serve_command();
Command vllm_serve_command();
Command sglang_command();
Command trtllm_serve_command();
Command score_command();
Command eval_command();
Command pull_command();
Command inspect_command();
Command plan_command();
Command synth_command();
Command quantize_command();
Command calibrate_command();
Command verify_command();
Command train_prepare_command();
Command train_prepare_cp_command();
Command train_train_command();
Command train_full_train_command();
Command train_check_command();
Command train_gradients_command();
Command train_grpo_command();
Command train_reward_command();
Command train_sft_command();
Command miles_command();
Command slime_command();
Command tokenize_command();
Command detokenize_command();
Command template_command();
Command bench_local_command();
Command bench_ops_command();
Command bench_quant_command();
Command bench_engine_command();
Command bench_serve_command();
Command bench_report_command();
Command selftest_command();
Command doctor_command();

inline std::vector<Command> all_commands() {
  return {
      generate_command(),
      chat_command(),
      serve_command(),
      vllm_serve_command(),
      sglang_command(),
      trtllm_serve_command(),
      score_command(),
      eval_command(),
      pull_command(),
      inspect_command(),
      plan_command(),
      synth_command(),
      quantize_command(),
      calibrate_command(),
      verify_command(),
      train_prepare_command(),
      train_prepare_cp_command(),
      train_train_command(),
      train_full_train_command(),
      train_check_command(),
      train_gradients_command(),
      train_grpo_command(),
      train_reward_command(),
      train_sft_command(),
      miles_command(),
      slime_command(),
      tokenize_command(),
      detokenize_command(),
      template_command(),
      bench_local_command(),
      bench_ops_command(),
      bench_quant_command(),
      bench_engine_command(),
      bench_serve_command(),
      bench_report_command(),
      selftest_command(),
      doctor_command(),
  };
}

}  // namespace glint
