#include "train/train_peers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/str.h"
#include "comm/shared_comm.h"

namespace glint {
namespace {

// work(peers) of `count` ranks at once.
void on_peers(int count, const std::function<void(const TrainPeers&)>& work) {
  const auto comms = make_thread_comms(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back(
        [&, rank] { work(TrainPeers({}, *comms[static_cast<std::size_t>(rank)], count)); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TrainPeers, tell_each_other_texts_of_any_length) {
  on_peers(3, [](const TrainPeers& peers) {
    const auto text = [](int rank) {
      return std::string(static_cast<std::size_t>(rank) * 70000, 'x');
    };
    const std::vector<std::string> all = {text(0), text(1), text(2)};
    EXPECT_EQ(peers.gather(text(peers.rank())), all);
    EXPECT_EQ(peers.from_first(peers.is_first() ? "said" : "not heard"), "said");
    EXPECT_EQ(peers.from_first(""), "");
    const std::vector<std::string> heard = peers.to_first(text(peers.rank()));
    EXPECT_EQ(heard, peers.is_first() ? all : std::vector<std::string>());
    EXPECT_EQ(peers.gather(""), std::vector<std::string>(3));
  });
}

TEST(TrainPeers, agree_on_the_failure_of_one) {
  on_peers(3, [](const TrainPeers& peers) {
    EXPECT_TRUE(peers.agree(Ok{}).ok());
    const bool fails = peers.rank() > 0;
    const Error own = {ErrorCode::kUnsupported, str("rank ", peers.rank(), " has no room")};
    const Status all = peers.agree(fails ? Status(own) : Status(Ok{}));
    EXPECT_EQ(all.error().message, "rank 1 has no room");
    EXPECT_EQ(all.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(peers.any(peers.rank() == 2));
    EXPECT_FALSE(peers.any(false));
  });
}

TEST(TrainPeers, hear_what_the_first_did) {
  on_peers(2, [](const TrainPeers& peers) {
    bool did = false;
    const auto first = [&]() -> Result<std::string> {
      did = true;
      return std::string("+ done");
    };
    EXPECT_EQ(peers.on_first_text(first).value(), "+ done");
    EXPECT_EQ(did, peers.is_first());
    const Status failed = peers.on_first([] { return Status(invalid("the disk is full")); });
    EXPECT_EQ(failed.error().message, "the disk is full");
  });
}

TEST(TrainPeers, shares_are_joined_and_that_of_a_lost_rank_is_empty) {
  std::vector<float> whole = {1, 0, 0, 4};
  read_share(write_share(std::vector<float>{0, 2, -0.0f, 0}), whole);
  EXPECT_EQ(whole, (std::vector<float>{1, 2, 0, 4}));
  EXPECT_TRUE(std::signbit(whole[2]));
  read_share(write_share(std::vector<float>(4)), whole);
  read_share("", whole);
  EXPECT_EQ(whole, (std::vector<float>{1, 2, 0, 4}));
}

TEST(TrainPeers, nobody_agrees_once_a_rank_is_lost) {
  const SharedGroup group = SharedGroup::map(2, -1).value();
  group.end();
  const auto comm = make_shared_comm(group, 1);
  const TrainPeers peers({}, *comm, 2);
  EXPECT_EQ(peers.agree(Ok{}).error().message, "a rank is lost");
  EXPECT_EQ(peers.on_first([] { return Status(Ok{}); }).error().code, ErrorCode::kUnavailable);
}

TEST(TrainPeers, alone_nothing_moves) {
  const TrainPeers alone;
  EXPECT_TRUE(alone.is_first() && alone.is_alone());
  EXPECT_EQ(alone.gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(alone.to_first("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(alone.agree(invalid("mine")).error().message, "mine");
}

TEST(TokenScores, are_the_same_bits_on_another_rank) {
  std::vector<TokenScores> all(3);
  all[0] = {.log_probs = {-0.0f, 1e-30f}, .served = {2}, .draft_routes = {7, -1}};
  const std::vector<TokenScores> read = read_scores(write_scores(all));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].log_probs, all[0].log_probs);
  EXPECT_TRUE(std::signbit(read[0].log_probs[0]));
  EXPECT_EQ(read[0].draft_routes, all[0].draft_routes);
  EXPECT_TRUE(read[2].served.empty());
}

}  // namespace
}  // namespace glint
