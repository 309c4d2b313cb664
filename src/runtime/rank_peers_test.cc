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

TEST(Faults, are_those_of_the_last_ten_minutes) {
  Faults faults;
  const std::chrono::steady_clock::time_point start;
  EXPECT_EQ(faults.add(start), 1);
  EXPECT_EQ(faults.add(start + std::chrono::minutes(10)), 2);
  EXPECT_EQ(faults.add(start + std::chrono::minutes(11)), 2);
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

// As where a machine is paused, and all go on together.
TEST(WatchRanks, nobody_is_lost_while_who_watches_sleeps) {
  RankPeer speaks = spawn_rank({"/bin/true"}, OwnedFd(::dup(STDERR_FILENO)), false).value(),
           silent = spawn_rank({"/bin/sleep", "60"}, OwnedFd(::dup(STDERR_FILENO)), false).value();
  RankPeer* const all[] = {&speaks, &silent};
  int looks = 0;
  EXPECT_EQ(watch_ranks(
                all, 0,
                [](std::size_t) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(5500));
                  return Heard::kLast;
                },
                [&] { return ++looks < 4; }),
            "");
  for (const RankPeer* const peer : all) {
    kill_rank(*peer);
    await_end(*peer);
  }
}

// A rank number on each, as everybody gets it.
void expect_all_meet(Comm& comm) {
  std::int32_t mine = comm.rank() + 5;
  std::vector<std::int32_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(reinterpret_cast<std::byte*>(&mine), DType::kI32, {1}),
                  Tensor(reinterpret_cast<std::byte*>(all.data()), DType::kI32, {comm.size()}));
  for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r + 5);
}

// A member of every group that the layout has.
void expect_mesh_meets(const Mesh& mesh) {
  for (const GroupKind& kind : kGroupKinds) expect_all_meet(*(mesh.*kind.place));
}

// Ranks as threads, with a connection between the first and each other.
void expect_groups_work(const MeshShape& shape, bool share_memory) {
  SCOPED_TRACE(describe(shape));
  const auto followers = static_cast<std::size_t>(shape.num_ranks()) - 1;
  const OwnedFd listener = listen_tcp(0).value();
  std::vector<std::unique_ptr<LeaderConnection>> leaders;
  std::vector<RankPeer> peers(followers);
  std::vector<RankPeer*> pointers;
  for (RankPeer& peer : peers) {
    leaders.push_back(std::make_unique<LeaderConnection>(RankStream(
        connect_tcp("127.0.0.1", port_of(listener), seconds_from_now(10), true).value())));
    peer.stream = RankStream(accept_tcp(listener, seconds_from_now(10)).value());
    pointers.push_back(&peer);
  }
  const auto groups = LeaderGroups::make(shape, share_memory, [](int) {}).value();
  EXPECT_EQ(groups->share_memory(), share_memory);
  std::vector<std::thread> others;
  for (std::size_t i = 0; i < followers; ++i) {
    others.emplace_back([&, i] {
      const int rank = static_cast<int>(i) + 1;
      const RankMembership member =
          RankMembership::join(*leaders[i], groups->memory_path(false), shape, rank, [](int) {
          }).value();
      EXPECT_EQ(member.all().rank(), rank);
      expect_all_meet(member.all());
      expect_mesh_meets(member.mesh());
      EXPECT_EQ(member.mesh().tp->rank(), rank % shape.tp);
      EXPECT_EQ(member.mesh().pp->rank(), rank / (shape.tp * shape.dp));
      member.all().barrier();  // a rank that is done hangs up
    });
  }
  const auto port = [&](std::size_t i) -> Result<int> {
    return static_cast<int>(
        parse_json(peers[i].stream.receive().value()).value().find("port")->as_int());
  };
  EXPECT_TRUE(groups->connect(pointers, port).ok());
  expect_all_meet(groups->all());
  expect_mesh_meets(groups->mesh());
  groups->all().barrier();
  for (std::thread& other : others) other.join();
  const Json traffic = groups->traffic(0, {});
  for (const GroupKind& kind : kGroupKinds) {
    const Json* const gathered = traffic.find(kind.name)->find("all_gather");
    EXPECT_EQ(gathered ? gathered->find("calls")->as_int() : 0,
              (groups->mesh().*kind.place)->size() > 1);
  }
}

TEST(LeaderGroups, meet_in_memory_and_over_sockets) {
  for (const bool share_memory : {true, false}) {
    expect_groups_work({.tp = 2}, share_memory);
    expect_groups_work({.tp = 2, .pp = 2, .dp = 2}, share_memory);
    expect_groups_work({.cp = 3, .ep = 3, .dp = 3}, share_memory);
  }
}

}  // namespace
}  // namespace glint
