#include "train/train_peers.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/contains.h"
#include "base/memory.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "comm/all_of.h"
#include "train/as_tensor.h"
#include "train/parameter_part.h"
#include "train/train_sequence.h"

namespace glint {
namespace {

// An outcome as text, the result or the failure; and back.
std::string write_result(const Result<std::string>& result) {
  if (result.ok()) return "+" + result.value();
  return str('-', static_cast<int>(result.error().code), ' ', result.error().message);
}

Result<std::string> read_result(const std::string& text) {
  if (text.empty()) return unavailable("a rank is lost");
  if (text.starts_with('+')) return text.substr(1);
  const std::size_t space = text.find(' ');
  return Error{static_cast<ErrorCode>(std::atoi(text.substr(1, space).c_str())),
               text.substr(space + 1)};
}

Result<std::string> as_result(const Status& status) {
  if (!status.ok()) return status.error();
  return std::string();
}

Status as_status(const Result<std::string>& result) {
  if (!result.ok()) return result.error();
  return Ok{};
}

template <class Visit, class Scores>
void for_values(Scores& scores, Visit& visit) {
  visit(scores.log_probs, scores.entropies, scores.served, scores.draft_log_probs,
        scores.draft_routes);
}

}  // namespace

std::vector<std::string> TrainPeers::gather(std::string_view mine) const {
  const auto count = static_cast<std::size_t>(size());
  if (count == 1) return {std::string(mine)};
  const std::vector<std::int64_t> sizes = all_of<std::int64_t>(std::ssize(mine), *all_);
  const auto most = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::string padded(mine), together(most * count, '\0');
  padded.resize(most);
  if (most > 0) all_->all_gather(as_tensor(padded), as_tensor(together));
  std::vector<std::string> all;
  for (std::size_t r = 0; r < count; ++r) {
    all.push_back(together.substr(r * most, static_cast<std::size_t>(sizes[r])));
  }
  return all;
}

std::string TrainPeers::from_first(std::string_view mine) const {
  std::string text(mine);
  if (is_alone()) return text;
  std::int64_t size = std::ssize(text);
  all_->broadcast(as_tensor(std::span(&size, 1)), 0);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) all_->broadcast(as_tensor(text), 0);
  return text;
}

std::vector<std::string> TrainPeers::to_first(std::string mine) const {
  std::int64_t size = std::ssize(mine);
  if (!is_first()) {
    all_->send(as_tensor(std::span(&size, 1)), 0);
    if (size > 0) all_->send(as_tensor(mine), 0);
    return {};
  }
  std::vector<std::string> all = {std::move(mine)};
  for (int r = 1; r < this->size(); ++r) {
    all_->recv(as_tensor(std::span(&size, 1)), r);
    std::string& theirs = all.emplace_back(static_cast<std::size_t>(size), '\0');
    if (size > 0) all_->recv(as_tensor(theirs), r);
  }
  return all;
}

bool TrainPeers::any(bool mine) const {
  if (is_alone()) return mine;
  const std::vector<std::string> all = gather(mine ? "1" : "0");
  return contains(all, "1");
}

Status TrainPeers::agree(const Status& mine) const {
  if (is_alone()) return mine;
  for (const std::string& said : gather(write_result(as_result(mine)))) {
    GLINT_TRY_STATUS(as_status(read_result(said)));
  }
  return Ok{};
}

Status TrainPeers::expect_memory(std::string_view what, std::int64_t bytes) const {
  const std::int64_t free = available_memory();
  if (bytes <= free / here_) return agree(Ok{});
  return agree(exhausted(str(what, " ", human_bytes(bytes),
                             here_ > 1 ? str(" in each of ", here_, " processes") : "", ", and ",
                             human_bytes(free), " are free")));
}

Status TrainPeers::expect_room_for_copies(const Checkpoint& checkpoint) const {
  return expect_memory(checkpoint.why_copies(), checkpoint.bytes_of_copies());
}

Status TrainPeers::expect_same_files(const std::string& dir, std::string_view fingerprint) const {
  const std::vector<std::string> read = gather(fingerprint);
  for (std::size_t rank = 1; rank < read.size(); ++rank) {
    if (read[rank].empty() || read[rank] == read[0]) continue;
    return invalid(str("rank ", rank, " has read another checkpoint in ", dir,
                       " than the first rank; give all machines the same files"));
  }
  return Ok{};
}

Result<std::string> TrainPeers::on_first_text(
    const std::function<Result<std::string>()>& work) const {
  if (is_alone()) return work();
  return read_result(from_first(is_first() ? write_result(work()) : std::string()));
}

Status TrainPeers::on_first(const std::function<Status()>& work) const {
  return as_status(on_first_text([&] { return as_result(work()); }));
}

std::string write_scores(std::span<const TokenScores> all) {
  ByteWriter write;
  for (const TokenScores& scores : all) for_values(scores, write);
  return write.take();
}

std::vector<TokenScores> read_scores(std::string_view bytes) {
  std::vector<TokenScores> all;
  ByteReader read(bytes);
  while (read.has_more()) for_values(all.emplace_back(), read);
  GLINT_CHECK(read.is_whole(), "scores of another rank are cut short");
  return all;
}

std::string write_share(std::span<const float> whole) {
  const auto is_there = [](float x) { return std::bit_cast<std::uint32_t>(x) != 0; };
  const auto begin =
      static_cast<std::size_t>(std::ranges::find_if(whole, is_there) - whole.begin());
  std::size_t end = whole.size();
  while (end > begin && !is_there(whole[end - 1])) --end;
  ByteWriter write;
  write(begin, whole.subspan(begin, end - begin));
  return write.take();
}

void read_share(std::string_view bytes, std::span<float> whole) {
  std::size_t begin = 0;
  std::vector<float> share;
  ByteReader read(bytes);
  read(begin, share);
  if (!read.is_whole()) return;
  GLINT_CHECK(begin <= whole.size() && share.size() <= whole.size() - begin,
              "a share of another tensor");
  join_shares(whole.subspan(begin), share);
}

}  // namespace glint
