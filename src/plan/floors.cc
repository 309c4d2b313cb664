#include "plan/floors.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace glint {
namespace {

// One collective inside a host, and one across hosts.
constexpr double kLatency = 10e-6, kNetworkLatency = 25e-6;

double rate_of(const PlanOps::Call& call, const DeviceModel& device) {
  if (call.op == Op::kSelectKeys) return device.fp8;
  if (call.weight < 0) return device.bf16;
  if (call.op == Op::kPerHead) return device.bf16;
  switch (call.format) {
    case WeightFormat::kFp8Block:
      return device.fp8;
    case WeightFormat::kNvfp4:
      return device.fp4;
    default:
      return device.bf16;
  }
}

// One shot, where every rank reads all others' parts, or a scatter and a gather.
double all_reduce(double bytes, int ranks, const DeviceModel& device) {
  const bool in_host = ranks <= device.per_host;
  const double link = in_host ? device.link : device.network;
  const double latency = in_host ? kLatency : kNetworkLatency;
  const double one = latency + (ranks - 1) * bytes / link;
  const double two = 1.5 * latency + 2.0 * (ranks - 1) / ranks * bytes / link;
  return std::min(one, two);
}

// Among `n` places that have as many experts each, the others that a token goes to.
double other_places(double n, int experts_per_token) {
  return n * (1 - std::pow(1 - 1 / n, experts_per_token)) * (n - 1) / n;
}

// The rows of `tokens` of a rank go to the ranks of the experts that they choose, once to each, in
// FP8 with scales, and answers in BF16 come back. A row crosses to another host once, and an answer
// back, where its parts are added.
double exchange(double tokens, int ranks, const ModelConfig& c, const DeviceModel& device) {
  const double row = static_cast<double>(c.hidden_size) * (1.03 + 2);
  const double hosts = std::ceil(static_cast<double>(ranks) / device.per_host);
  const double in_host = tokens * other_places(ranks, c.num_experts_per_tok) * row / device.link;
  if (hosts < 2) return 2 * kLatency + in_host;
  return 2 * kNetworkLatency + in_host +
         tokens * other_places(hosts, c.num_experts_per_tok) * row / device.network;
}

double collectives(const ModelPartition& partition, const ModelConfig& c, const MeshShape& l,
                   const PassShape& shape, const DeviceModel& device) {
  const double T = shape.tokens, H = static_cast<double>(c.hidden_size);
  const bool exchanges = l.ep > 1 && l.dp > 1;
  double seconds = 0;
  for (int i = partition.layers.begin; i < partition.layers.end; ++i) {
    const bool dense = c.layers[static_cast<std::size_t>(i)].is_dense();
    if (l.tp > 1) seconds += all_reduce(2 * T * H, l.tp, device);  // after attention
    if (exchanges && !dense) {
      seconds += exchange(T / l.tp, l.ep, c, device);
    } else if (l.tp > 1) {
      seconds += all_reduce(2 * T * H, l.tp, device);
    }
  }
  if (partition.is_last()) return seconds;
  const bool in_host = (partition.stage + 1) * l.tp * l.dp % device.per_host != 0;
  return seconds + (in_host ? kLatency + 4 * T * H / device.link
                            : kNetworkLatency + 4 * T * H / device.network);
}

}  // namespace

void add_stage(const StepTrial& trial, const ModelConfig& config, const TrialOptions& options,
               const PassShape& shape, const DeviceModel& device, Floor& floor) {
  struct Work {
    double bytes = 0, math = 0;  // bytes; seconds of arithmetic
  };
  std::map<std::pair<Op, std::string>, Work> classes;
  const std::vector<ModelTensor>& tensors = trial.tensors();  // ids are indices of it
  double bytes = 0, flops = 0;
  for (const PlanOps::Call& call : trial.ops().calls()) {
    const double moved = call.cost.weight_bytes + call.cost.cache_bytes;
    if (moved == 0) continue;  // elementwise: activations
    std::string kind;
    if (call.weight >= 0) {
      const std::string& name = tensors[static_cast<std::size_t>(call.weight)].name;
      kind = name.substr(name.rfind('.') + 1) +
             name_of(tensors[static_cast<std::size_t>(call.weight)].role);
    }
    Work& work = classes[{call.op, kind}];
    work.bytes += moved;
    work.math += call.cost.flops / rate_of(call, device);
    bytes += moved, flops += call.cost.flops;
  }
  double seconds = 0;
  for (const auto& [key, work] : classes) {
    seconds += std::max(work.bytes / device.bandwidth, work.math);
  }
  const double between = collectives(trial.partition(), config, options.shape, shape, device);
  floor.seconds += seconds + between;
  floor.collectives += between;
  if (seconds + between > floor.slowest) {
    floor.slowest = seconds + between;
    floor.bytes = bytes, floor.flops = flops;
  }
}

}  // namespace glint
