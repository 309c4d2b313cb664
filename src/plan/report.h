// A planned deployment for people (a table, a page with charts) and for programs (JSON).
#pragma once

#include "base/json.h"
#include "plan/advice.h"

namespace glint {

struct PlanReport {
  Deployment deployment;
  std::vector<LayoutChoice> layouts;
  std::vector<std::string> advice;
};

// Fails as plan_deployment does. Layouts are compared where `options` has floors.
Result<PlanReport> make_report(const ModelConfig& config, const DeploymentOptions& options);

// GiB from one on, so that the sizes of a large model compare: "1,024.00 GiB"; else "1.5 MiB".
std::string memory_size(std::int64_t bytes);

std::string to_text(const PlanReport& report);
Json to_json(const PlanReport& report);
// One page: step time over batch, memory by role, context over concurrency. Opens offline.
std::string to_html(const PlanReport& report);

}  // namespace glint
