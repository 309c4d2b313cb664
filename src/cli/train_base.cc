#include "cli/train_base.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "quant/source_identity.h"

namespace glint {

Result<std::string> base_of_run(const std::string& dir) {
  GLINT_TRY(const Checkpoint weights, Checkpoint::open(dir));
  GLINT_TRY(const std::string config, read_file(dir + "/config.json"));
  return source_fingerprint(weights.source(), config);
}

}  // namespace glint
