// TrainPeers: ranks of training that are processes of their own, as each of them sees the others,
// beside the groups of its layout. All run one command: what only the first does (answers, files,
// what is printed) the others hear from it, so that all decide the same.
//
// Every call is collective, in the same order on all. Alone, nothing moves.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "train/gradient_source.h"

namespace glint {

class Checkpoint;

class TrainPeers {
 public:
  TrainPeers() = default;
  // `mesh` is this rank's in the layout, `all` a group of all ranks in their order; they outlive
  // this. `here`: such processes on this machine, which share its threads.
  TrainPeers(const Mesh& mesh, Comm& all, int here) : mesh_(mesh), all_(&all), here_(here) {}

  int rank() const { return all_->rank(); }
  int size() const { return all_->size(); }
  int here() const { return here_; }
  bool is_first() const { return rank() == 0; }
  bool is_alone() const { return size() == 1; }
  const Mesh& mesh() const { return mesh_; }

  // The message of each, by rank; that of the first; and to the first alone, which gets it by rank,
  // with its own.
  std::vector<std::string> gather(std::string_view mine) const;
  std::string from_first(std::string_view mine) const;
  std::vector<std::string> to_first(std::string mine) const;
  // Whether one of them says so.
  bool any(bool mine) const;
  // The failure of the first rank that has one.
  Status agree(const Status& mine) const;
  // Whether those of this machine have memory for so many bytes each, before one takes any; `what`
  // is the beginning of the sentence that says no, up to its verb.
  Status expect_memory(std::string_view what, std::int64_t bytes) const;
  // expect_memory() for copies of all weights that are no views of the files.
  Status expect_room_for_copies(const Checkpoint& checkpoint) const;
  // Whether all have read the same in `dir`, by LoadedModel::fingerprint(); empty: not from files.
  Status expect_same_files(const std::string& dir, std::string_view fingerprint) const;
  // The outcome of work that only the first does.
  Status on_first(const std::function<Status()>& work) const;
  // on_first() for work whose result is text.
  Result<std::string> on_first_text(const std::function<Result<std::string>()>& work) const;

 private:
  Mesh mesh_ = {};
  Comm* all_ = &self_comm();
  int here_ = 1;
};

// Scores as bytes, for another rank; and back.
std::string write_scores(std::span<const TokenScores> scores);
std::vector<TokenScores> read_scores(std::string_view bytes);

// Numbers of a whole tensor without the zeros before the first and behind the last, as bytes; and
// back, where `whole` has other shares. Empty bytes, as a lost rank's are, hold none.
std::string write_share(std::span<const float> whole);
void read_share(std::string_view bytes, std::span<float> whole);

}  // namespace glint
