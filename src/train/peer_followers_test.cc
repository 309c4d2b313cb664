#include "train/peer_followers.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/queue.h"
#include "comm/shared_comm.h"

namespace glint {
namespace {

RankCommand command_of(int pages) {
  return {.kind = RankCommand::Kind::kReservePages, .num_pages = pages};
}

TEST(PeerFollowers, run_all_commands_in_order_and_tell_the_first_failure) {
  const auto comms = make_thread_comms(2);
  const TrainPeers first({}, *comms[0], 2), other({}, *comms[1], 2);
  Queue<bool> may_run;
  std::vector<int> ran;
  std::thread thread([&] {
    follow_first(other, [&](const RankCommand& command) -> Status {
      may_run.pop();
      ran.push_back(command.num_pages);
      if (command.num_pages % 2 == 0) return exhausted(std::to_string(command.num_pages));
      return Ok{};
    });
    EXPECT_EQ(other.from_first(""), "after the session");
  });
  {
    PeerFollowers followers(first);
    // The first does not wait until they have run.
    for (int pages = 1; pages <= 5; ++pages) followers.start(command_of(pages));
    for (int i = 0; i < 5; ++i) may_run.push(true);
    EXPECT_EQ(followers.finish().error().message, "2");
    EXPECT_EQ(ran, (std::vector<int>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(followers.finish().ok());
    followers.start(command_of(7));
    may_run.push(true);
  }
  first.from_first("after the session");
  thread.join();
  EXPECT_EQ(ran.back(), 7);
}

TEST(PeerFollowers, nobody_waits_for_a_lost_rank) {
  const SharedGroup group = SharedGroup::map(2, -1).value();
  group.end();
  const auto one = make_shared_comm(group, 0), two = make_shared_comm(group, 1);
  const TrainPeers first({}, *one, 2), other({}, *two, 2);
  follow_first(other, [](const RankCommand&) { return Status(Ok{}); });
  PeerFollowers followers(first);
  followers.start(command_of(1));
  EXPECT_EQ(followers.finish().error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(followers.state().ok());
  followers.lose("the first has other weights");
  EXPECT_EQ(followers.restart({}).error().message, "the first has other weights");
}

}  // namespace
}  // namespace glint
