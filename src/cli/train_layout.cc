#include "cli/train_layout.h"

#include <algorithm>

#include "base/str.h"
#include "cli/option_checks.h"

namespace glint {
namespace {

std::string bytes_text(const Json& bytes) { return human_bytes(bytes.as_int()); }

// The backend of ranks, `here` of them on this machine, maybe `launched` by another program: "auto"
// is GPUs where all machines have one for each of theirs.
Result<std::string> backend_of_ranks(const std::string& name, int here, bool launched,
                                     const TrainPeers& peers) {
  std::string own = resolve_backend(name);
  if (here == 1 && peers.is_alone()) return own;
  const Status has_gpus = own == "cuda" ? check_devices(here, launched) : Status(Ok{});
  if (name == "auto") return common_backend(peers.gather(has_gpus.ok() ? own : "cpu"));
  GLINT_TRY_STATUS(has_gpus);
  return own;
}

}  // namespace

Result<std::string> common_backend(const std::vector<std::string>& of_ranks) {
  const auto begin = of_ranks.begin();
  const auto without = std::find(begin, of_ranks.end(), "cpu");
  const auto with = std::find(begin, of_ranks.end(), "cuda");
  if (without == of_ranks.end() || with == of_ranks.end()) return of_ranks[0];
  return unsupported(str("the machine of rank ", without - begin,
                         " has no fit GPU for each of its ranks, and that of rank ", with - begin,
                         " has; give --backend cpu to train on CPUs"));
}

Status check_layout(const MeshShape& shape) {
  GLINT_TRY_STATUS(check_sizes(shape));
  GLINT_TRY_STATUS(check_least("decoder-last-pipeline-num-layers", shape.last_stage_layers, 0));
  return check_shape(shape);
}

Result<LaidOutRanks> lay_out(const MeshShape& shape, const RunOptions& how,
                             const ModelOptions& resolved, const Cli& cli,
                             const TrainPeers& peers) {
  GLINT_TRY_STATUS(check_layout(shape));
  const int threads = std::max(resolved.threads, 1);
  const int ranks = peers.is_alone() ? shape.num_ranks() : 1;  // of this process
  LaidOutRanks out = {.model = resolved};
  out.model.shape = shape;
  if (ranks > threads) {
    return invalid(str("there are ", ranks, " ranks, and ", counted(threads, "thread"),
                       "; give --threads ", ranks, " or OMP_NUM_THREADS=", ranks,
                       ", or fewer ranks"));
  }
  const int here = ranks * peers.here();  // of this machine
  GLINT_TRY(BackendOptions each, backend_options(how, cli));
  const bool launched = !peers.is_alone() && !cli.is_rank;
  GLINT_TRY(each.name, backend_of_ranks(how.backend, here, launched, peers));
  out.backend = each.name;
  each.threads = out.model.threads = std::max(threads / here, 1);
  if (!peers.is_alone()) keep_to_memory(each.name, peers.rank(), here);
  for (int rank = 0; rank < ranks; ++rank) {
    each.device = device_of_rank(peers.rank() + rank, here);
    GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
    out.backends.push_back(std::move(backend));
  }
  return out;
}

std::string ranks_text(const Json& ranks) {
  const auto& all = ranks.as_array();
  std::string text;
  if (all.size() == 1) return text;
  for (const Json& rank : all) {
    const Json* const pid = rank.find("pid");
    text += str("rank ", rank.find("rank")->as_int(), " of ", all.size(),
                pid ? str(" (process ", pid->as_int(), ")") : std::string(), ": weights ",
                bytes_text(*rank.find("weight_bytes")));
    if (const Json* const bytes = rank.find("memory_of_weights")) {
      text += str(" (of its process ", bytes_text(*bytes), ")");
    }
    text += str(", gradients ", bytes_text(*rank.find("gradient_bytes")));
    if (const Json* const bytes = rank.find("optimizer_bytes")) {
      text += str(", optimiser ", bytes_text(*bytes));
    }
    if (const Json* const bytes = rank.find("reference_bytes")) {
      text += str(", reference ", bytes_text(*bytes));
    }
    for (const auto& [group, calls] : rank.find("collectives")->as_object()) {
      for (const auto& [name, use] : calls.as_object()) {
        text += str("; ", group, " ", name, " ", with_commas(use.find("calls")->as_int()),
                    use.find("calls")->as_int() == 1 ? " time, " : " times, ",
                    bytes_text(*use.find("bytes")));
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace glint
