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

std::string to_text(const PlanReport& report);
Json to_json(const PlanReport& report);
// One page: step time over batch, memory by role, context over concurrency. Opens offline.
std::string to_html(const PlanReport& report);

}  // namespace glint
