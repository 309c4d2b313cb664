#include "ops/conformance/conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/seconds.h"
#include "base/statistics.h"
#include "ops/backward.h"
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

const char* const kBlocks[] = {
#define GLINT_BLOCK(Type, name) #name,
    GLINT_FOR_EACH_BLOCK(GLINT_BLOCK)
#undef GLINT_BLOCK
};

const char* const kBackward[] = {
#define GLINT_OP(Type, name) #name,
    GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP
};

// Cases of one op stand together, in the order of op_names().
std::vector<Case> all_cases(bool timing) {
  std::vector<Case> cases;
  for (AddCases* add :
       {add_elementwise_cases, add_norm_cases, add_rope_cases, add_linear_cases, add_kv_write_cases,
        add_select_keys_cases, add_sparse_mla_cases, add_moe_cases, add_sampling_cases,
        add_sequences_cases, add_attention_block_cases, add_ffn_block_cases, add_backward_row_cases,
        add_backward_linear_cases, add_backward_attention_cases}) {
    add(cases, timing);
  }
  const std::vector<std::string> names = op_names();
  const auto position = [&](const Case& c) {
    return std::find(names.begin(), names.end(), c.op) - names.begin();
  };
  std::stable_sort(cases.begin(), cases.end(),
                   [&](const Case& a, const Case& b) { return position(a) < position(b); });
  return cases;
}

Outputs run(const std::function<Call(Workspace&)>& prepare, Workspace&& ws) {
  prepare(ws).run();
  return ws.outputs();
}

// Why token `t` alone does not give the bits that it gives in the batch; empty if it does.
std::string compare_alone(const Outputs& batch, const Outputs& alone, std::int64_t t) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i].per_token) continue;
    if (i >= alone.size() || !batch[i].rows_equal(t, 1, alone[i])) {
      return str(batch[i].name, " of token ", t, " depends on the tokens computed with it");
    }
  }
  return "";
}

// Why packed weights do not give the bits of plain ones; empty if they do, or if none is packed.
std::string compare_packed(const Case& c, Backend& backend, const Noise& noise,
                           const Outputs& plain) {
  Workspace ws(backend, noise, {.packed = true});
  const Call call = c.prepare(ws);
  if (!ws.has_packed()) return "";
  call.run();
  const Outputs packed = ws.outputs();
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (i >= plain.size() || !plain[i].rows_equal(0, plain[i].rows(), packed[i])) {
      return packed[i].name + " differs with packed weights";
    }
  }
  return "";
}

CaseResult compare(const Case& c, Backend& backend, Backend& reference, const Noise& noise) {
  CaseResult result = {.op = c.op, .name = c.name, .tolerance = c.tolerance};
  const Outputs want = run(c.prepare, Workspace(reference, noise));
  const Outputs got = run(c.prepare, Workspace(backend, noise));
  const Verdict verdict = c.judge(want, got, c.tolerance);
  result.error = verdict.error;
  result.failure = verdict.failure;
  if (c.prepare_composed && result.failure.empty()) {
    const Outputs composed = run(c.prepare_composed, Workspace(backend, noise));
    const Verdict block = c.judge(composed, got, c.tolerance);
    result.error = std::max(result.error, block.error);
    if (!block.failure.empty()) result.failure = "against its composition: " + block.failure;
  }
  for (const std::int64_t t : {std::int64_t{0}, c.tokens / 2, c.tokens - 1}) {
    if (!result.failure.empty() || c.tokens < 2) break;
    result.failure =
        compare_alone(got, run(c.prepare, Workspace(backend, noise, {.only_token = t})), t);
  }
  if (result.failure.empty() && c.tokens > 0) {
    for (const Output& output : run(c.prepare, Workspace(backend, noise, {.no_token = true}))) {
      if (output.name == "stray write") result.failure = "a stray write where there is no token";
    }
  }
  const bool conforms = result.failure.empty();
  if (conforms && !c.need.weights.empty()) result.failure = compare_packed(c, backend, noise, got);
  return result;
}

// Median over calls of a quarter of a second together, three at least unless they are very slow.
CaseResult time(const Case& c, Backend& backend, const Noise& noise) {
  using Clock = std::chrono::steady_clock;
  Workspace ws(backend, noise, {.packed = true});
  const Call call = c.prepare(ws);
  const auto timed_run = [&] {
    const auto start = Clock::now();
    call.run();
    backend.device().synchronize();
    return seconds_since(start);
  };
  timed_run();
  std::vector<double> seconds;
  const auto start = Clock::now();
  do {
    seconds.push_back(timed_run());
  } while (seconds_since(start) < (seconds.size() < 3 ? 2 : 0.25));
  return {.op = c.op,
          .name = c.name,
          .seconds = median(std::move(seconds)),
          .cost = call.cost,
          .in_f32 = c.need.activations.has(DType::kF32)};
}

// The first element that is off by more than `limit` of (itself + typical), or whose infinity or
// NaN differs; empty if there is none.
std::string find_outlier(const Output& want, const Output& got, double limit, double typical) {
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double expected = want.values[i], found = got.values[i];
    const bool ok = std::isfinite(expected)
                        ? std::fabs(found - expected) <= limit * (std::fabs(expected) + typical)
                        : found == expected || (std::isnan(expected) && std::isnan(found));
    if (!ok) {
      return str(want.name, "[", i / want.width, ", ", i % want.width, "] is ", found,
                 ", the reference has ", expected);
    }
  }
  return "";
}

Verdict judge_values(const Output& want, const Output& got, double tolerance) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (!std::isfinite(want.values[i])) continue;
    const double expected = want.values[i];
    difference += (got.values[i] - expected) * (got.values[i] - expected);
    norm += expected * expected;
  }
  const double count = static_cast<double>(std::max<std::size_t>(want.values.size(), 1));
  const double typical = std::sqrt(norm / count);
  // In a small output one bf16 that was rounded the other way weighs more than the tolerance.
  const double limit = tolerance + 2 * want.ulp / std::sqrt(count);
  Verdict verdict = {.error = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30)};
  // A single wrong element hides in the norm of a large output.
  verdict.failure = find_outlier(want, got, 8 * tolerance + want.ulp, typical);
  if (verdict.failure.empty() && !(verdict.error <= limit)) {
    verdict.failure = str("relative error of ", want.name, " is ", verdict.error);
  }
  return verdict;
}

}  // namespace

double tolerance_of(const OpTolerance& tolerance, DType dtype) {
  return dtype == DType::kF32 ? tolerance.f32 : tolerance.bf16;
}

const char* short_name(DType dtype) { return dtype == DType::kF32 ? "f32" : "bf16"; }

Verdict judge_outputs(const Outputs& want, const Outputs& got, double tolerance) {
  Verdict verdict;
  for (std::size_t i = 0; i < std::max(want.size(), got.size()); ++i) {
    if (i >= want.size() || i >= got.size()) return {1, "a stray write beside the outputs"};
    if (want[i].ids != got[i].ids) return {1, want[i].name + " differs from the reference"};
    const Verdict one = judge_values(want[i], got[i], tolerance);
    verdict.error = std::max(verdict.error, one.error);
    if (!one.failure.empty()) return {verdict.error, one.failure};
  }
  return verdict;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    names.push_back(name_of(static_cast<Op>(op)));
  }
  names.insert(names.end(), std::begin(kBlocks), std::end(kBlocks));
  names.insert(names.end(), std::begin(kBackward), std::end(kBackward));
  return names;
}

int run_conformance(Backend& backend, Backend& reference, const Options& options,
                    const std::function<void(const CaseResult&)>& on_case) {
  const Noise noise;
  const Capabilities have = backend.capabilities();
  int failures = 0;
  for (const Case& c : all_cases(options.timing)) {
    if (!options.op.empty() && options.op != c.op) continue;
    if (c.name.find(options.name) == std::string::npos) continue;
    if (!check_capabilities(have, c.need).ok()) continue;
    const CaseResult result =
        options.timing ? time(c, backend, noise) : compare(c, backend, reference, noise);
    failures += !result.failure.empty();
    on_case(result);
  }
  return failures;
}

}  // namespace glint::conformance
