#include "hub/repository.h"

#include <algorithm>

#include "base/glob.h"
#include "base/hub_id.h"
#include "base/json_text.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64;
// In bytes, so that those of all files can be added up.
constexpr std::int64_t kMaxFile = std::int64_t{1} << 44;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

// A path below a folder, which it does not leave.
bool is_inside(std::string_view path) {
  const auto parts = split(path, '/');
  const bool named = std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= 255;
  });
  return named && path.size() <= 1024 && std::all_of(path.begin(), path.end(), [](char c) {
           return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\';
         });
}

std::string percent_encoded(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (is_alnum(c) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string pattern) {
    if (pattern.ends_with('/')) pattern += '*';
    return glob_matches(pattern, path);
  });
}

Result<HubFile> read_file_of_tree(const Json& entry) {
  const std::string* path = text_of(entry, "path");
  if (!path || !is_inside(*path))
    return invalid(str("the hub names a file ", path ? quoted(*path) : "that has no path",
                       ", which no folder could hold"));
  const Json* size = entry.find("size");
  const std::string* oid = text_of(entry, "oid");
  HubFile out = {.path = *path};
  if (size && size->is_int()) out.size = size->as_int();
  if (oid) out.git_oid = *oid;
  if (const Json* lfs = entry.find("lfs"); lfs && lfs->is_object()) {
    if (const std::string* sha256 = text_of(*lfs, "oid")) out.sha256 = *sha256;
    if (const Json* bytes = lfs->find("size"); bytes && bytes->is_int()) out.size = bytes->as_int();
    if (!is_hex(out.sha256, kSha256Digits))
      return invalid(str("the hub gives no SHA-256 of ", quoted(*path)));
  }
  if (out.sha256.empty() && !is_hex(out.git_oid, kSha1Digits))
    return invalid(str("the hub gives no hash of ", quoted(*path)));
  if (!size || !size->is_int() || out.size < 0 || out.size > kMaxFile)
    return invalid(str("the hub gives no sound size of ", quoted(*path)));
  return out;
}

}  // namespace

std::string Repository::folder() const { return hub_folder(type, id); }

std::string Repository::api() const { return str("/api/", type, "s/", id); }

std::string Repository::file_target(std::string_view commit, std::string_view path) const {
  const std::string prefix = type == "model" ? "/" : "/" + type + "s/";
  return str(prefix, id, "/resolve/", commit, "/", percent_encoded(path));
}

Result<Repository> parse_repository(std::string_view text, std::string type,
                                    const std::string& revision) {
  GLINT_TRY(HubId id, parse_hub_id(text, revision));
  return Repository{
      .type = std::move(type), .id = std::move(id.name), .revision = std::move(id.revision)};
}

Result<std::vector<HubFile>> read_tree(const Json& page) {
  if (!page.is_array()) return invalid("the hub's listing of files is no list");
  std::vector<HubFile> out;
  for (const Json& entry : page.as_array()) {
    const std::string* type = text_of(entry, "type");
    if (!type) return invalid("the hub's listing of files has an entry without a type");
    if (*type != "file") continue;
    GLINT_TRY(HubFile file, read_file_of_tree(entry));
    out.push_back(std::move(file));
  }
  return out;
}

bool is_commit(std::string_view text) { return is_hex(text, kSha1Digits); }

bool is_chosen(const std::string& path, const std::vector<std::string>& include,
               const std::vector<std::string>& exclude) {
  return (include.empty() || matches_any(path, include)) && !matches_any(path, exclude);
}

}  // namespace glint
