// MultiFetch: many files from a hub at once, each in parts over several connections, with one
// thread that moves bytes and some that check hashes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "hub/hub_client.h"
#include "hub/part_file.h"

namespace glint {

struct FetchJob {
  HubFile file;
  std::string url;              // at the hub; may lead to another server
  std::string incomplete = {};  // where it arrives, "....incomplete"
  std::string target = {};      // what it becomes when its hash is right
};

class MultiFetch {
 public:
  // `on_bytes` is told what arrives, and less than nothing when it was wrong; `on_file` which file
  // is at its target.
  MultiFetch(HubClient& hub, std::vector<FetchJob> jobs, std::function<void(std::int64_t)> on_bytes,
             std::function<Status(const HubFile&)> on_file);
  ~MultiFetch();

  // Until every file is there. A connection that fails is tried again from where it was; a file
  // whose hash is wrong, once. Fails with the first thing that cannot be helped, or with
  // "interrupted": what has arrived is kept for the next time. The hub's client is of no use after
  // a failure.
  Status run();

 private:
  struct Part {
    bool open = false;  // asked for
    int attempts = 0;   // in a row without a byte
    int redirections = 0;
    double not_before = 0;  // seconds since run() began
    std::uint64_t id = 0;   // of the exchange
    std::string url = {};   // that was asked
  };
  struct File {
    FetchJob job;
    PartFile data;
    std::string url = {};  // where parts are asked for now
    std::vector<Part> parts = {};
    bool checking = false;
    bool was_wrong = false;   // once already
    bool whole_only = false;  // the server knows no ranges
    int restarts = 0;
    std::future<Status> check = {};  // of the hash
  };

  static bool is_missing(const File& file, int part);
  bool is_done() const { return next_job_ == jobs_.size() && files_.empty(); }
  void fail(Error error);
  void fill();
  bool open_next_file();
  void start_part(File& file, int part);
  bool is_linked_right(File& file, const HttpResponse& head);
  bool on_head(File& file, int part, const HttpResponse& head);
  bool on_piece(File& file, int part, std::string_view piece);
  void on_done(File& file, int part, Result<HttpResponse> answer);
  void on_answer(File& file, int part, const HttpResponse& answer);
  void redirect(File& file, int part, const HttpResponse& answer);
  void retry(File& file, int part, const std::string& why, const HttpResponse* answer);
  void close_parts(File& file);
  void check_if_whole(File& file);
  void start_over(File& file, bool one_part);
  void look_at_checks();
  void look();
  double now() const;

  HubClient& hub_;
  std::vector<FetchJob> jobs_;
  std::size_t next_job_ = 0;
  const std::function<void(std::int64_t)> on_bytes_;
  const std::function<Status(const HubFile&)> on_file_;
  std::atomic<bool> stop_{false};           // the checks
  std::list<std::unique_ptr<File>> files_;  // begun, and not done
  int num_open_ = 0, num_checking_ = 0;
  Status status_ = Ok{};
  bool failed_ = false;
  std::chrono::steady_clock::time_point begin_ = {};
};

}  // namespace glint
