#include "hub/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/owned_fd.h"
#include "base/str.h"
#include "hub/content_hash.h"
#include "net/file_limit.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

std::string repository_of(const PullRequest& request) {
  return request.cache_dir + "/" + request.repository.folder();
}

// Beside a file in a folder lies what huggingface_hub notes about it: commit, hash, time.
std::string notes_of(const PullRequest& request, const std::string& path) {
  return request.local_dir + "/.cache/huggingface/download/" + path;
}

Status make_folder_of(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (!error) return Ok{};
  return invalid(str("cannot make the folder of ", quoted_path(path), ": ", error.message()));
}

bool has_size(const std::string& path, std::int64_t size) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;
}

// Whether the file in the folder is this one: by its note if nobody has written since, else by its
// hash.
bool is_here(const PullRequest& request, const HubFile& file, const std::function<bool()>& stop) {
  const std::string path = request.local_dir + "/" + file.path;
  if (!has_size(path, file.size)) return false;
  struct stat info = {};
  stat(path.c_str(), &info);
  if (const auto note = read_file(notes_of(request, file.path) + ".metadata", 4096); note.ok()) {
    const auto lines = split(note.value(), '\n');
    const double time = lines.size() > 2 ? std::atof(std::string(lines[2]).c_str()) : 0;
    if (lines.size() > 2 && lines[1] == file.hash() &&
        static_cast<double>(info.st_mtime) - 1 <= time)
      return true;
  }
  const auto hash = file.sha256.empty() ? git_oid_of_file(path, stop) : sha256_of_file(path, stop);
  return hash.ok() && hash.value() == file.hash();
}

Status choose(PullPlan& plan, std::vector<HubFile> listed) {
  const PullRequest& request = plan.request;
  const std::string& id = request.repository.id;
  std::set<std::string> names(request.files.begin(), request.files.end());
  for (HubFile& file : listed) {
    const bool named = names.erase(file.path) > 0;
    if (!request.files.empty() && !named) continue;
    if (is_chosen(file.path, request.include, request.exclude))
      plan.files.push_back(std::move(file));
  }
  if (!names.empty())
    return not_found(str(id, " has no file ", quoted(*names.begin(), 1024), " at revision ",
                         request.repository.revision));
  if (plan.files.empty()) return not_found(str("no file of ", id, " matches the patterns"));
  return Ok{};
}

void add_job(PullPlan& plan, const HubFile& file, const HubClient& hub) {
  const PullRequest& request = plan.request;
  FetchJob job = {.file = file,
                  .url = hub.url_of(request.repository.file_target(plan.commit, file.path))};
  if (request.local_dir.empty()) {
    job.target = repository_of(request) + "/blobs/" + file.hash();
    job.incomplete = job.target + ".glint.incomplete";
    if (has_size(job.target, file.size)) return;
  } else {
    job.target = request.local_dir + "/" + file.path;
    job.incomplete = notes_of(request, file.path) + "." + file.hash() + ".glint.incomplete";
    if (is_here(request, file, [&] { return hub.interrupted(); })) return;
  }
  const auto same = [&](const FetchJob& each) { return each.target == job.target; };
  if (std::any_of(plan.jobs.begin(), plan.jobs.end(), same)) return;  // a copy in the repository
  plan.missing_bytes += file.size - PartFile::bytes_in(job.incomplete, file.size);
  plan.jobs.push_back(std::move(job));
}

// One program fetches a file at a time: the locks are those of huggingface_hub. Released when the
// program ends.
class Locks {
 public:
  Status take(const std::string& path) {
    GLINT_TRY_STATUS(make_folder_of(path));
    OwnedFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file) return invalid(str("cannot write ", quoted_path(path), ": ", std::strerror(errno)));
    files_.push_back(std::move(file));
    if (flock(files_.back().get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Ok{};
    return unavailable(str("another program fetches the same file: it holds ", quoted_path(path),
                           "; wait for it, then ask again"));
  }

 private:
  std::vector<OwnedFd> files_;
};

std::string lock_of(const PullRequest& request, const HubFile& file) {
  if (!request.local_dir.empty()) return notes_of(request, file.path) + ".lock";
  return str(request.cache_dir, "/.locks/", request.repository.folder(), "/", file.hash(), ".lock");
}

// snapshots/COMMIT/a/b -> ../../../blobs/HASH, in place of whatever is there.
Status link_file(const PullPlan& plan, const HubFile& file) {
  const std::string link = plan.folder + "/" + file.path;
  std::string blob = "../../";
  for (const char c : file.path) blob += c == '/' ? "../" : "";
  blob += "blobs/" + file.hash();
  std::error_code error;
  if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == blob) return Ok{};
  GLINT_TRY_STATUS(make_folder_of(link));
  const std::string beside = link + ".glint.tmp";
  fs::remove(beside, error);
  fs::create_symlink(blob, beside, error);
  if (!error) fs::rename(beside, link, error);
  if (error) return invalid(str("cannot link ", quoted_path(link), ": ", error.message()));
  return Ok{};
}

Status finish_cache(const PullPlan& plan) {
  for (const HubFile& file : plan.files) GLINT_TRY_STATUS(link_file(plan, file));
  const std::string& revision = plan.request.repository.revision;
  if (revision == plan.commit) return Ok{};
  const std::string ref = repository_of(plan.request) + "/refs/" + revision;
  // The cache may be read-only where all is there.
  if (const auto known = read_file(ref, 4096); known.ok() && trimmed(known.value()) == plan.commit)
    return Ok{};
  GLINT_TRY_STATUS(make_folder_of(ref));
  return write_file_atomic(ref, plan.commit);
}

// With a note the next run needs no hash of the file.
Status note_file(const PullPlan& plan, const HubFile& file) {
  const std::string note = notes_of(plan.request, file.path) + ".metadata";
  GLINT_TRY_STATUS(make_folder_of(note));
  return write_file_atomic(note,
                           str(plan.commit, "\n", file.hash(), "\n", std::time(nullptr), "\n"));
}

// Notes the files that are there already.
Status begin_folder(const PullPlan& plan) {
  const std::string ignore = plan.request.local_dir + "/.cache/huggingface/.gitignore";
  GLINT_TRY_STATUS(make_folder_of(ignore));
  if (!file_exists(ignore)) GLINT_TRY_STATUS(write_file_atomic(ignore, "*"));
  for (const HubFile& file : plan.files) {
    const auto same = [&](const FetchJob& job) { return job.file.path == file.path; };
    if (std::any_of(plan.jobs.begin(), plan.jobs.end(), same)) continue;
    GLINT_TRY_STATUS(note_file(plan, file));
  }
  return Ok{};
}

}  // namespace

Result<PullPlan> plan_pull(HubClient& hub, PullRequest request) {
  PullPlan plan = {.request = std::move(request)};
  const Repository& repository = plan.request.repository;
  GLINT_TRY(HubListing listing, hub.list(repository));
  plan.commit = listing.commit;
  GLINT_TRY_STATUS(choose(plan, std::move(listing.files)));
  plan.folder = plan.request.local_dir.empty()
                    ? repository_of(plan.request) + "/snapshots/" + plan.commit
                    : plan.request.local_dir;
  for (const HubFile& file : plan.files) {
    plan.total_bytes += file.size;
    add_job(plan, file, hub);
    if (hub.interrupted()) return interruption();
  }
  return plan;
}

Status check_room(const PullPlan& plan) {
  const PullRequest& request = plan.request;
  const std::string folder = request.local_dir.empty() ? request.cache_dir : request.local_dir;
  fs::path there = fs::absolute(folder);
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, error);
  if (error || static_cast<double>(space.available) >= static_cast<double>(plan.missing_bytes))
    return Ok{};
  return exhausted(str(quoted_path(folder), " has room for ", human_bytes(space.available),
                       ", and ", human_bytes(plan.missing_bytes),
                       " are to be fetched: free some, or name another place (HF_HUB_CACHE, "
                       "--cache-dir, --local-dir)"));
}

Status run_pull(HubClient& hub, const PullPlan& plan, std::function<void(std::int64_t)> on_bytes) {
  Locks locks;
  raise_file_limit(static_cast<int>(plan.jobs.size()));  // a lock is an open file
  for (const FetchJob& job : plan.jobs) {
    GLINT_TRY_STATUS(locks.take(lock_of(plan.request, job.file)));
    GLINT_TRY_STATUS(make_folder_of(job.incomplete));
    GLINT_TRY_STATUS(make_folder_of(job.target));
  }
  const bool in_folder = !plan.request.local_dir.empty();
  if (in_folder) GLINT_TRY_STATUS(begin_folder(plan));
  if (!plan.jobs.empty()) {
    MultiFetch fetch(hub, plan.jobs, std::move(on_bytes), [&](const HubFile& file) -> Status {
      return in_folder ? note_file(plan, file) : Ok{};
    });
    GLINT_TRY_STATUS(fetch.run());
  }
  return in_folder ? Ok{} : finish_cache(plan);
}

}  // namespace glint
