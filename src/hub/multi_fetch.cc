#include "hub/multi_fetch.h"

#include <charconv>
#include <utility>

#include "base/seconds.h"
#include "base/str.h"
#include "hub/content_hash.h"

namespace glint {
namespace {

constexpr double kLookSeconds = 0.02;  // for interruptions, checks that are done, parts that waited
constexpr int kMaxRestarts = 5;
constexpr int kChecksAtOnce = 4;
constexpr std::size_t kMostBegun = 64;  // files, each of which is open twice until it is checked

// "bytes 5-9/10": where the answer begins, and how long the file is; -1 if it does not say so.
struct Range {
  std::int64_t begin = -1, total = -1;
};
Range range_of(const HttpResponse& head) {
  const std::string_view text = head.header("content-range");
  Range out;
  const std::size_t slash = text.find('/');
  if (!text.starts_with("bytes ") || slash == text.npos) return out;
  std::from_chars(text.data() + 6, text.data() + slash, out.begin);
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), out.total);
  return out;
}

Status check_hash(const FetchJob& job, const std::function<bool()>& stop) {
  const HubFile& file = job.file;
  GLINT_TRY(const std::string found, file.sha256.empty() ? git_oid_of_file(job.incomplete, stop)
                                                         : sha256_of_file(job.incomplete, stop));
  if (found == file.hash()) return Ok{};
  return not_found(str(quoted(file.path, 1024), " arrived with the hash ", found, "; the hub says ",
                       file.hash()));
}

}  // namespace

MultiFetch::MultiFetch(HubClient& hub, std::vector<FetchJob> jobs,
                       std::function<void(std::int64_t)> on_bytes,
                       std::function<Status(const HubFile&)> on_file)
    : hub_(hub),
      jobs_(std::move(jobs)),
      on_bytes_(std::move(on_bytes)),
      on_file_(std::move(on_file)) {}

MultiFetch::~MultiFetch() { stop_ = true; }  // the futures of files_ wait for their threads

double MultiFetch::now() const { return seconds_since(begin_); }

void MultiFetch::fail(Error error) {
  if (!std::exchange(failed_, true)) status_ = std::move(error);
  stop_ = true;
  hub_.http().stop();
}

Status MultiFetch::run() {
  begin_ = std::chrono::steady_clock::now();
  look();
  hub_.http().run();
  return std::move(status_);
}

// Again and again, until everything is done.
void MultiFetch::look() {
  if (hub_.interrupted()) return fail(interruption());
  look_at_checks();
  fill();
  if (!is_done() && !failed_) hub_.http().after(kLookSeconds, [this] { look(); });
}

bool MultiFetch::is_missing(const File& file, int part) {
  return file.data.done_of(part) < file.data.length_of(part);
}

// Parts of files that are open first, so that files become whole one after the other.
void MultiFetch::fill() {
  if (failed_) return;
  const int most = hub_.options().connections;
  for (const auto& file : files_) {
    for (int i = 0; i < file->data.num_parts() && num_open_ < most; ++i) {
      const Part& part = file->parts[static_cast<std::size_t>(i)];
      if (is_missing(*file, i) && !part.open && !file->checking && part.not_before <= now())
        start_part(*file, i);
    }
  }
  while (num_open_ < most && files_.size() < kMostBegun && !failed_ && open_next_file()) {
    File& file = *files_.back();
    for (int i = 0; i < file.data.num_parts() && num_open_ < most; ++i) {
      if (is_missing(file, i)) start_part(file, i);
    }
  }
}

bool MultiFetch::open_next_file() {
  if (next_job_ == jobs_.size()) return false;
  FetchJob& job = jobs_[next_job_++];
  Result<PartFile> data = PartFile::open(job.incomplete, job.file.size, hub_.options().part_bytes);
  if (!data.ok()) {
    fail(std::move(data).take_error());
    return false;
  }
  auto file = std::make_unique<File>(File{.job = std::move(job), .data = std::move(data).value()});
  file->url = file->job.url;
  file->parts.resize(static_cast<std::size_t>(file->data.num_parts()));
  files_.push_back(std::move(file));
  files_.back()->checking = files_.back()->data.is_complete();
  return true;
}

void MultiFetch::start_part(File& file, int part) {
  Part& state = file.parts[static_cast<std::size_t>(part)];
  const std::int64_t begin = file.data.begin_of(part) + file.data.done_of(part);
  const std::int64_t end = file.data.begin_of(part) + file.data.length_of(part);
  state.url = file.url;
  HttpHeaders headers = hub_.headers_for(file.url);
  if (begin > 0 || end < file.job.file.size)
    headers.emplace_back("range", str("bytes=", begin, "-", end - 1));
  state.open = true;
  ++num_open_;
  state.id = hub_.http().start(
      {.target = file.url,
       .headers = std::move(headers),
       .on_head = [this, &file,
                   part](const HttpResponse& head) { return on_head(file, part, head); },
       .on_piece = [this, &file,
                    part](std::string_view piece) { return on_piece(file, part, piece); },
       .on_done =
           [this, &file, part](Result<HttpResponse> answer) {
             --num_open_;
             file.parts[static_cast<std::size_t>(part)].open = false;
             on_done(file, part, std::move(answer));
             fill();
           }});
}

// Whether the hub, where it leads to a large file, means the one that its listing has.
bool MultiFetch::is_linked_right(File& file, const HttpResponse& head) {
  const std::string_view hash = head.header("x-linked-etag"), size = head.header("x-linked-size");
  const HubFile& listed = file.job.file;
  if ((hash.empty() || hash.find(listed.hash()) != hash.npos) &&
      (size.empty() || size == std::to_string(listed.size)))
    return true;
  fail(invalid(str(quoted(listed.path, 1024), " has ", quoted(size), " bytes and the hash ",
                   quoted(hash), " where it lies; the hub's listing says ", listed.size, " and ",
                   listed.hash())));
  return false;
}

bool MultiFetch::on_head(File& file, int part, const HttpResponse& head) {
  if (!is_linked_right(file, head)) return false;
  const std::int64_t begin = file.data.begin_of(part) + file.data.done_of(part);
  const std::int64_t end = file.data.begin_of(part) + file.data.length_of(part);
  if (head.status != 206) {
    // The whole file: right if that is what was asked for.
    file.whole_only = begin > 0 || end < file.job.file.size;
    return !file.whole_only;
  }
  const Range range = range_of(head);
  if (range.begin == begin && range.total == file.job.file.size) return true;
  fail(invalid(str(quoted(file.job.file.path, 1024), ": the server answers a range with ",
                   quoted(head.header("content-range")), "; byte ", begin, " of ",
                   file.job.file.size, " was asked for")));
  return false;
}

bool MultiFetch::on_piece(File& file, int part, std::string_view piece) {
  const auto bytes = static_cast<std::int64_t>(piece.size());
  if (file.data.done_of(part) + bytes > file.data.length_of(part)) {
    fail(invalid(str(quoted(file.job.file.path, 1024), " is longer than the ", file.job.file.size,
                     " bytes that the hub's listing says")));
    return false;
  }
  if (Status written = file.data.append(part, piece); !written.ok()) {
    fail(std::move(written).take_error());
    return false;
  }
  Part& state = file.parts[static_cast<std::size_t>(part)];
  state.attempts = state.redirections = 0;
  on_bytes_(bytes);
  return true;
}

void MultiFetch::on_done(File& file, int part, Result<HttpResponse> answer) {
  if (failed_) return;
  if (std::exchange(file.whole_only, false)) {
    if (++file.restarts <= kMaxRestarts) return start_over(file, true);
    return fail(unavailable(str(quoted(file.job.file.path, 1024),
                                ": the server knows no ranges, and the "
                                "connection was closed ",
                                kMaxRestarts, " times within the file")));
  }
  if (!is_missing(file, part)) return check_if_whole(file);  // however the answer ended
  if (!answer.ok()) {
    if (answer.error().code != ErrorCode::kUnavailable) return fail(std::move(answer).take_error());
    return retry(file, part, answer.error().message, nullptr);
  }
  on_answer(file, part, answer.value());
}

void MultiFetch::on_answer(File& file, int part, const HttpResponse& answer) {
  const int status = answer.status;
  if (status >= 300 && status < 400) return redirect(file, part, answer);
  if (status / 100 == 2) return retry(file, part, "the answer is too short", &answer);
  if (is_worth_a_retry(status))
    return retry(file, part, str("the server answers ", status), &answer);
  // A signed address lasts for a while only.
  const Part& state = file.parts[static_cast<std::size_t>(part)];
  if (!hub_.is_hub(state.url)) {
    if (file.url == state.url) file.url = file.job.url;
    return retry(file, part, str("the server that the hub names answers ", status), &answer);
  }
  if (status == 416)
    return fail(invalid(str(quoted(file.job.file.path, 1024), " is shorter than the ",
                            file.job.file.size, " bytes that the hub's listing says")));
  fail(refusal(answer, quoted(file.job.file.path, 1024)));
}

void MultiFetch::redirect(File& file, int part, const HttpResponse& answer) {
  Part& state = file.parts[static_cast<std::size_t>(part)];
  if (!is_linked_right(file, answer)) return;
  Result<std::string> next = redirection(state.url, answer, ++state.redirections);
  if (!next.ok()) return fail(std::move(next).in(quoted(file.job.file.path, 1024)).take_error());
  if (file.url == state.url)
    file.url = std::move(next).value();  // else another part was led on before
}

void MultiFetch::retry(File& file, int part, const std::string& why, const HttpResponse* answer) {
  Part& state = file.parts[static_cast<std::size_t>(part)];
  state.redirections = 0;
  if (++state.attempts >= hub_.options().max_attempts)
    return fail(unavailable(
        str(quoted(file.job.file.path, 1024), ": ", why, ", ", state.attempts,
            " times in a row; what has arrived is kept: the same command goes on with it")));
  state.not_before = now() + hub_.delay(state.attempts, answer);
}

void MultiFetch::close_parts(File& file) {
  for (Part& part : file.parts) {
    if (!std::exchange(part.open, false)) continue;
    hub_.http().cancel(part.id);
    --num_open_;
  }
}

// A file that is checked may be gone at any time, and no exchange may come back to it then: one
// whose bytes are all there can still wait for the end of its answer.
void MultiFetch::check_if_whole(File& file) {
  if (!file.data.is_complete()) return;
  close_parts(file);
  file.checking = true;
}

void MultiFetch::start_over(File& file, bool one_part) {
  close_parts(file);
  on_bytes_(-file.data.bytes_done());
  if (Status again = file.data.restart(one_part); !again.ok())
    return fail(std::move(again).take_error());
  file.parts.assign(static_cast<std::size_t>(file.data.num_parts()), {});
}

void MultiFetch::look_at_checks() {
  for (auto at = files_.begin(); at != files_.end() && !failed_;) {
    File& file = **at++;
    if (!file.checking) continue;
    if (!file.check.valid()) {
      if (num_checking_ == kChecksAtOnce) continue;
      ++num_checking_;
      file.check = std::async(std::launch::async, [this, &file] {
        return check_hash(file.job, [this] { return stop_.load(); });
      });
    }
    if (file.check.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    --num_checking_;
    Status checked = file.check.get();
    if (checked.ok()) checked = file.data.finish(file.job.target);
    if (checked.ok()) {
      if (Status told = on_file_(file.job.file); !told.ok()) fail(std::move(told).take_error());
      files_.erase(std::prev(at));
      continue;
    }
    const bool wrong = checked.error().code == ErrorCode::kNotFound;
    if (wrong) start_over(file, false);  // nothing of it can be used
    file.checking = false;
    if (!wrong || std::exchange(file.was_wrong, true)) fail(std::move(checked).take_error());
  }
}

}  // namespace glint
