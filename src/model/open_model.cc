#include "model/open_model.h"

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "model/inventory.h"

namespace glint {

bool OpenedModel::has_mtp() const {
  return checkpoint ? holds_mtp_layer(config, checkpoint->source())
                    : config.num_nextn_predict_layers > 0;
}

OpenedModel OpenedModel::again() const {
  std::optional<Checkpoint> files;
  if (checkpoint) files = checkpoint->again();
  return {.config = config,
          .generation = generation,
          .checkpoint = std::move(files),
          .sources = sources};
}

Result<OpenedModel> open_model(const std::string& path, ModelFiles files) {
  OpenedModel model;
  const bool config_alone = files != ModelFiles::kAll && file_exists(path);
  GLINT_TRY(model.config, read_config(config_alone ? path : path + "/config.json"));
  if (config_alone) return model;
  GLINT_TRY(model.generation,
            read_generation_config(path + "/generation_config.json", model.config.vocab_size));
  if (files == ModelFiles::kAll ||
      (files == ModelFiles::kIfStored && SafetensorsSource::any_in(path))) {
    GLINT_TRY(model.checkpoint, Checkpoint::open(path));
    keep_own_head(model.config, *model.checkpoint);
  }
  return model;
}

}  // namespace glint
