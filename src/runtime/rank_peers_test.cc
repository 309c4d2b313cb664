#include "runtime/rank_peers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/str.h"
#include "base/tcp.h"

namespace glint {
namespace {

std::string end_of_one(const std::vector<std::string>& command, pid_t& pid) {
  RankPeer peer = spawn_rank(command, OwnedFd(::dup(STDERR_FILENO)), false).value();
  pid = peer.pid;
  RankPeer* const all[] = {&peer};
  const std::string why = watch_ranks(
      all, 1,
      [&](std::size_t) {
        const Result<std::string> said = peer.stream.receive();
        return said.ok() ? Heard::kMore : Heard::kNothing;
      },
      [] { return true; });
  kill_rank(peer);
  await_end(peer);
  return why;
}

TEST(WatchRanks, names_the_rank_that_ends_or_shows_no_life) {
  pid_t pid = 0;
  const std::string ended = end_of_one({"/bin/true"}, pid);
  EXPECT_EQ(ended, str("rank 1 (process ", pid, ") has ended"));
  const auto begin = std::chrono::steady_clock::now();
  const std::string silent = end_of_one({"/bin/sleep", "60"}, pid);
  EXPECT_EQ(silent, str("rank 1 (process ", pid, ") shows no life"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_LT(::waitpid(pid, nullptr, 0), 0);  // it is gone
}

TEST(WatchRanks, a_rank_that_has_told_all_may_end) {
  RankPeer peer = spawn_rank({"/bin/true"}, OwnedFd(::dup(STDERR_FILENO)), false).value();
  RankPeer* const all[] = {&peer};
  EXPECT_EQ(watch_ranks(
                all, 0, [](std::size_t) { return Heard::kLast; }, [] { return true; }),
            "");
  EXPECT_EQ(watch_ranks(
                all, 0, [](std::size_t) { return Heard::kMore; }, [] { return false; }),
            "");
  await_end(peer);
}

// A rank number on each, as everybody gets it.
void expect_all_meet(Comm& comm) {
  std::int32_t mine = comm.rank() + 5;
  std::vector<std::int32_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(reinterpret_cast<std::byte*>(&mine), DType::kI32, {1}),
                  Tensor(reinterpret_cast<std::byte*>(all.data()), DType::kI32, {comm.size()}));
  for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r + 5);
}

// Rank 0 and rank 1 as threads, with a connection between them.
void expect_groups_work(const MeshShape& shape, bool share_memory) {
  const OwnedFd listener = listen_tcp(0).value();
  RankLeader leader(
      RankStream(connect_tcp("127.0.0.1", port_of(listener), seconds_from_now(10), true).value()));
  RankPeer peer = {.stream = RankStream(accept_tcp(listener, seconds_from_now(10)).value())};
  RankPeer* const peers[] = {&peer};
  const auto groups = RankGroups::make(shape, share_memory, [](int) {}).value();
  EXPECT_EQ(groups->share_memory(), share_memory);
  std::thread other([&] {
    const RankMembership member =
        RankMembership::join(leader, groups->memory_path(false), shape, 1, [](int) {}).value();
    expect_all_meet(member.all());
    expect_all_meet(*member.mesh().tp);
    EXPECT_EQ(member.mesh().tp->rank(), 1);
  });
  const auto port = [&](std::size_t) -> Result<int> {
    return static_cast<int>(
        parse_json(peer.stream.receive().value()).value().find("port")->as_int());
  };
  EXPECT_TRUE(groups->connect(peers, port).ok());
  expect_all_meet(groups->all());
  expect_all_meet(*groups->mesh().tp);
  other.join();
  const Json traffic = groups->traffic(0, {});
  EXPECT_EQ(traffic.find("tp")->find("all_gather")->find("calls")->as_int(), share_memory ? 1 : 2);
}

TEST(RankGroups, meet_in_memory_and_over_sockets) {
  expect_groups_work({.tp = 2}, true);
  expect_groups_work({.tp = 2}, false);
}

TEST(RankGroups, of_several_kinds_need_one_machine) {
  const auto groups = RankGroups::make({.tp = 2, .dp = 2}, false, [](int) {});
  ASSERT_FALSE(groups.ok());
  EXPECT_NE(groups.error().message.find("start them on one"), std::string::npos);
}

}  // namespace
}  // namespace glint
