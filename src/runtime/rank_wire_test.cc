#include "runtime/rank_wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "base/random.h"

namespace glint {
namespace {

RankCommand random_command(std::uint64_t seed) {
  Random random(11, seed);
  const auto below = [&](int n) { return static_cast<int>(random.uniform() * n); };
  RankCommand command = {.kind = static_cast<RankCommand::Kind>(below(RankCommand::kNumKinds))};
  command.replicas.resize(static_cast<std::size_t>(below(4)));
  for (StepRows& rows : command.replicas) {
    rows.step = seed;
    for (int s = below(4); s > 0; --s) {
      std::vector<TokenId> tokens(static_cast<std::size_t>(below(70)));
      for (TokenId& token : tokens) token = below(5000) - 1;
      const std::vector<PageId> pages(3, below(100));
      rows.add(below(100), tokens, pages, tokens.empty() ? 0 : 1);
    }
  }
  command.routed = static_cast<std::uint8_t>(below(2));
  command.graph = static_cast<std::uint8_t>(below(2));
  command.graph_sizes.resize(static_cast<std::size_t>(below(5)), below(9));
  command.replica = below(4);
  command.selection.resize(static_cast<std::size_t>(below(9)), below(7));
  command.hidden_rows.resize(static_cast<std::size_t>(below(9)), below(7));
  command.hidden.resize(static_cast<std::size_t>(below(99)), std::byte{3});
  command.num_pages = below(1000);
  command.memory.draft = below(1000);
  command.path = std::string(static_cast<std::size_t>(below(20)), 'p');
  command.slots.resize(static_cast<std::size_t>(below(20)), below(16));
  command.layer = below(78);
  return command;
}

TEST(RankWire, commands_come_back_as_they_were) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RankCommand command = random_command(seed);
    const std::string bytes = write_command(command);
    const auto read = read_command(bytes);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(write_command(read.value()), bytes);
    ASSERT_EQ(read.value().replicas.size(), command.replicas.size());
    for (std::size_t s = 0; s < command.replicas.size(); ++s) {
      EXPECT_EQ(read.value().replicas[s].tokens, command.replicas[s].tokens);
      EXPECT_EQ(read.value().replicas[s].pages, command.replicas[s].pages);
      EXPECT_EQ(read.value().replicas[s].slices.size(), command.replicas[s].slices.size());
    }
    EXPECT_EQ(read.value().graph, command.graph);
    EXPECT_EQ(read.value().graph_sizes, command.graph_sizes);
    EXPECT_EQ(read.value().replica, command.replica);
    EXPECT_EQ(read.value().hidden, command.hidden);
    EXPECT_EQ(read.value().memory.draft, command.memory.draft);
    EXPECT_EQ(read.value().path, command.path);
    EXPECT_EQ(read.value().slots, command.slots);
    EXPECT_EQ(read.value().layer, command.layer);
  }
}

TEST(RankWire, bytes_that_are_cut_or_changed_are_refused_or_whole) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::string bytes = write_command(random_command(seed));
    for (std::size_t size = 0; size < bytes.size(); size += 3) {
      EXPECT_FALSE(read_command(bytes.substr(0, size)).ok());
    }
    EXPECT_FALSE(read_command(bytes + "x").ok());
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(~changed[at]);
      const auto read = read_command(changed);
      if (read.ok()) {
        EXPECT_EQ(write_command(read.value()), changed);
      }
    }
  }
  RankCommand outside = {.replicas = {{}, {.slices = {{.count = 1}}, .tokens = {4}}}};  // no page
  EXPECT_FALSE(read_command(write_command(outside)).ok());
  outside.replicas[1] = {.slices = {{.count = 1, .num_pages = 1}}, .tokens = {4}, .pages = {-1}};
  EXPECT_FALSE(read_command(write_command(outside)).ok());
}

TEST(RankStream, brings_messages_in_order_and_says_when_the_other_end_is_gone) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  RankStream here{OwnedFd(fds[0])};
  std::thread there([fd = fds[1]] {
    RankStream stream{OwnedFd(fd)};
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(stream.send(stream.receive().value() + "!").ok());
    }
  });
  for (const std::size_t size : {0, 1, 5'000'000}) {
    const std::string message(size, 'm');
    ASSERT_TRUE(here.send(message).ok());
    EXPECT_EQ(here.receive().value(), message + "!");
  }
  there.join();
  EXPECT_EQ(here.receive().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(here.send("x").error().code, ErrorCode::kUnavailable);
}

TEST(RankStream, refuses_another_language) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  RankStream here{OwnedFd(fds[0])};
  const OwnedFd other(fds[1]);
  const char request[] = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::send(other.get(), request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  EXPECT_EQ(here.receive().error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace glint
