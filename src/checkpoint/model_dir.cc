#include "checkpoint/model_dir.h"

#include <filesystem>

#include "base/file.h"
#include "base/hub_id.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxShown = 4096;  // a path is of no use when it is cut

}  // namespace

Result<std::string> resolve_model(const std::string& model, const std::string& hf_hub_cache) {
  if (model.empty()) return invalid("the model is empty; expected a directory or a hub id");
  if (model.find('\0') != model.npos)
    return invalid(str("the model ", quoted(model, kMaxShown), " holds a NUL, which no path does"));
  if (is_directory(model)) {
    if (!is_directory(model + "/snapshots") || is_present(model + "/config.json")) return model;
    return invalid(
        str(quoted(model, kMaxShown),
            " is the cache's folder of all revisions; expected the model's id, or one of "
            "the folders in ",
            model, "/snapshots"));
  }
  std::error_code error;
  const auto type = std::filesystem::status(model, error).type();
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    return not_found(str("cannot open ", quoted(model, kMaxShown), ": ", error.message()));
  }
  if (type != std::filesystem::file_type::not_found) {
    return invalid(
        str(quoted(model, kMaxShown), " is a file; expected the directory of a checkpoint"));
  }

  const Result<HubId> id = parse_hub_id(model);
  if (!id.ok()) return not_found(str("there is no directory ", quoted(model, kMaxShown)));
  const auto& [name, revision] = id.value();
  const std::string repository = str(hf_hub_cache, "/", hub_folder("model", name));
  if (!is_directory(repository)) {
    const std::string remedy =
        is_hub_id(name) ? str("; `glint pull ", name, "` fetches a model") : std::string();
    return not_found(str("there is no directory ", quoted(model, kMaxShown),
                         " and no model of that name in ", hf_hub_cache, remedy));
  }
  std::string commit = revision;
  if (const std::string ref = repository + "/refs/" + revision; file_exists(ref)) {
    GLINT_TRY(commit, read_file(ref, 4096));
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (!is_hub_name(commit))
      return invalid(str(ref, " holds ", quoted(commit), "; expected a commit"));
  }
  const std::string snapshot = repository + "/snapshots/" + commit;
  if (!is_directory(snapshot)) {
    return not_found(str("the cache has no snapshot ", quoted(commit), " of ", name,
                         ": there is no ", snapshot));
  }
  return snapshot;
}

}  // namespace glint
