#include "runtime/rank_launch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

namespace glint {
namespace {

const RankHello kHello = {
    .build = "1.0", .launch = "torchrun a:1", .machine = "m", .rank = 3, .size = 4};

TEST(RankHello, comes_back_as_it_was) {
  const Result<RankHello> read = read_hello(write_hello(kHello));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().build, kHello.build);
  EXPECT_EQ(read.value().launch, kHello.launch);
  EXPECT_EQ(read.value().machine, kHello.machine);
  EXPECT_EQ(read.value().rank, kHello.rank);
  EXPECT_EQ(read.value().size, kHello.size);
}

TEST(RankHello, of_strangers_is_refused) {
  const std::string good = write_hello(kHello);
  EXPECT_FALSE(read_hello("GET / HTTP/1.1").ok());
  EXPECT_FALSE(read_hello("[]").ok());
  EXPECT_FALSE(read_hello("{}").ok());
  for (const std::string part : {"\"rank\":3", "\"size\":4", "\"build\":\"1.0\""}) {
    ASSERT_NE(good.find(part), good.npos) << good;
    for (const std::string other : {"\"x\":1", "\"rank\":-1", "\"rank\":\"3\"", "\"build\":null"}) {
      std::string text = good;
      EXPECT_FALSE(read_hello(text.replace(text.find(part), part.size(), other)).ok()) << text;
    }
  }
}

TEST(RankHello, tells_machines_apart) {
  EXPECT_EQ(this_machine(), this_machine());
  EXPECT_FALSE(this_machine().empty());
}

TEST(RankGate, takes_nobody_who_has_hung_up) {
  const RankHello first = {.build = "1", .launch = "a", .machine = "m", .size = 2};
  RankHello second = first;
  second.rank = 1;
  const AgentOptions agent = {
      .self = second, .leader = "127.0.0.1", .port = port_of(listen_tcp(0).value())};
  auto gate = RankGate::open(agent.port, first).value();
  RankStream gone(connect_tcp(agent.leader, agent.port, seconds_from_now(10), false).value());
  ASSERT_TRUE(gone.send(write_hello(second)).ok());
  ::shutdown(gone.fd(), SHUT_WR);
  Result<std::string> heard = Error{};
  std::thread comes([&] {
    if (Result<RankStream> stream = come_to_leader(agent, true); stream.ok())
      heard = stream.value().receive();
  });
  EXPECT_TRUE(gate->admit(seconds_from_now(10)).value().front().stream.send("start").ok());
  gate.reset();
  comes.join();
  EXPECT_TRUE(heard.ok() && heard.value() == "start");
}

// One that replaces another comes to a leader that takes nobody in while it serves.
TEST(RankAgent, ends_with_a_leader_that_never_took_it_in) {
  std::optional<OwnedFd> listener = listen_tcp(0).value();
  const AgentOptions agent = {.self = kHello, .leader = "127.0.0.1", .port = port_of(*listener)};
  Status end = Error{};
  const auto begin = std::chrono::steady_clock::now();
  std::thread comes([&] { end = run_rank_agent(agent); });
  const OwnedFd came = accept_tcp(*listener, seconds_from_now(10)).value();
  listener.reset();
  ::shutdown(came.get(), SHUT_RDWR);
  comes.join();
  EXPECT_TRUE(end.ok()) << end.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace glint
