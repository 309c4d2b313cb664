// Which ranks talk with which, and through which memory.
#include "runtime/rank_groups.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "base/owned_fd.h"
#include "runtime/rank_memory.h"

namespace glint {
namespace {

using Ranks = std::vector<std::vector<int>>;

Ranks groups(const MeshShape& shape, std::string_view name) {
  Ranks ranks;
  for (const RankGroup& group : groups_of(shape)) {
    if (kGroupKinds[group.kind].name == name) ranks.push_back(group.ranks);
  }
  return ranks;
}

TEST(RankGroups, are_those_of_the_layout) {
  const MeshShape divided = {.tp = 2, .pp = 2, .dp = 2};
  EXPECT_EQ(groups(divided, "tp"), (Ranks{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(divided, "dp"), (Ranks{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(divided, "pp"), (Ranks{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(divided, "ep"), Ranks());
  const MeshShape dealt = {.cp = 3, .ep = 3, .dp = 3};
  for (const char* name : {"cp", "dp", "ep"}) EXPECT_EQ(groups(dealt, name), (Ranks{{0, 1, 2}}));
  EXPECT_TRUE(groups_of({}).empty());
  EXPECT_EQ(groups_of(divided).front().member(1), 1);
  EXPECT_EQ(groups_of(divided).front().member(2), -1);
}

TEST(RankMemory, gives_each_group_a_place_of_its_own) {
  const MeshShape shape = {.tp = 2, .dp = 2};
  const OwnedFd file(::memfd_create("ranks", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(RankMemory::bytes_for(shape))), 0);
  const RankMemory seen = RankMemory::map(shape, file.get()).value();
  std::vector<std::int32_t> got(4);
  const auto run = [&](int rank) {
    const RankMemory memory = RankMemory::map(shape, file.get()).value();
    const RankMemory::Comms comms(memory, rank);
    const Mesh mesh = comms.mesh();
    // A call within each replica, and between their first ranks another, which the others do not
    // make.
    std::int32_t mine = 10 + rank, both[2] = {};
    mesh.tp->all_gather(Tensor(reinterpret_cast<std::byte*>(&mine), DType::kI32, {1}),
                        Tensor(reinterpret_cast<std::byte*>(both), DType::kI32, {2}));
    got[static_cast<std::size_t>(rank)] = both[0] + both[1];
    const Tensor sum(reinterpret_cast<std::byte*>(&got[static_cast<std::size_t>(rank)]),
                     DType::kI32, {1});
    if (rank == 2) mesh.dp->send(sum, 0);
    if (rank == 0) mesh.dp->recv(sum, 1);
    EXPECT_EQ(mesh.ep->size(), 1);
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.emplace_back(run, rank);
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(got, (std::vector<std::int32_t>{25, 21, 25, 25}));
  EXPECT_EQ(seen.traffic(2).find("dp")->find("send")->find("bytes")->as_int(), 4);
  EXPECT_TRUE(seen.traffic(1).find("dp")->as_object().empty());
  // Once it is ended nobody waits, and what is asked for is zeros.
  seen.end();
  std::int32_t none = 7;
  const RankMemory::Comms comms(seen, 0);
  comms.mesh().dp->recv(Tensor(reinterpret_cast<std::byte*>(&none), DType::kI32, {1}), 1);
  EXPECT_EQ(none, 0);
}

}  // namespace
}  // namespace glint
