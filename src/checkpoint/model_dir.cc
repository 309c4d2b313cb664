#include "checkpoint/model_dir.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxShown = 4096;  // a path is of no use when it is cut

// Whether a part of an id or revision is as the hub allows and cannot leave the cache.
bool is_plain(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

// "main", a commit, "refs/pr/1".
bool is_revision(std::string_view text) {
  const auto parts = split(text, '/');
  return std::all_of(parts.begin(), parts.end(), is_plain);
}

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

  std::string_view id = model;
  std::string revision = "main";
  if (const std::size_t at = id.find('@'); at != id.npos) {
    revision = id.substr(at + 1);
    id = id.substr(0, at);
  }
  const auto parts = split(id, '/');
  if (parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), is_plain) ||
      !is_revision(revision)) {
    return not_found(str("there is no directory ", quoted(model, kMaxShown)));
  }
  std::string folder = "models";
  for (const std::string_view part : parts) folder += str("--", part);
  const std::string repository = hf_hub_cache + "/" + folder;
  if (!is_directory(repository)) {
    const std::string remedy =
        parts.size() == 2 ? str("; `glint pull ", id, "` fetches a model") : std::string();
    return not_found(str("there is no directory ", quoted(model, kMaxShown),
                         " and no model of that name in ", hf_hub_cache, remedy));
  }
  std::string commit = revision;
  if (const std::string ref = repository + "/refs/" + revision; file_exists(ref)) {
    GLINT_TRY(commit, read_file(ref, 4096));
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (!is_plain(commit))
      return invalid(str(ref, " holds ", quoted(commit), "; expected a commit"));
  }
  const std::string snapshot = repository + "/snapshots/" + commit;
  if (!is_directory(snapshot)) {
    return not_found(
        str("the cache has no snapshot ", quoted(commit), " of ", id, ": there is no ", snapshot));
  }
  return snapshot;
}

}  // namespace glint
