#include "runtime/rank_launch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "runtime/rank_processes.h"

namespace glint {
namespace {

const RankHello kHello = {.build = "1.0",
                          .launch = "torchrun a:1",
                          .machine = "m",
                          .rank = 3,
                          .size = 4,
                          .asked = {{"--tp", "4"}}};

TEST(RankHello, comes_back_as_it_was) {
  const Result<RankHello> read = read_hello(write_hello(kHello));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().build, kHello.build);
  EXPECT_EQ(read.value().launch, kHello.launch);
  EXPECT_EQ(read.value().machine, kHello.machine);
  EXPECT_EQ(read.value().rank, kHello.rank);
  EXPECT_EQ(read.value().size, kHello.size);
  EXPECT_EQ(read.value().asked, kHello.asked);
}

TEST(RankHello, of_strangers_is_refused) {
  const std::string good = write_hello(kHello);
  EXPECT_FALSE(read_hello("GET / HTTP/1.1").ok());
  EXPECT_FALSE(read_hello("[]").ok());
  EXPECT_FALSE(read_hello("{}").ok());
  std::string other = good;
  EXPECT_FALSE(read_hello(other.replace(other.find("\"4\""), 3, "4")).ok()) << other;
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

TEST(RankGate, tells_those_of_another_launch_and_goes_on) {
  const RankHello first = {.build = "1", .launch = "Slurm 7.0", .machine = "m", .size = 2};
  AgentOptions agent = {
      .self = first, .leader = "127.0.0.1", .port = port_of(listen_tcp(0).value())};
  agent.self.rank = 1;
  const auto gate = RankGate::open(agent.port, first).value();
  EXPECT_NE(RankGate::open(agent.port, first).error().message.find("by --master-port"),
            std::string::npos);
  std::thread comes([&] {
    AgentOptions stranger = agent;
    stranger.self.launch = "Slurm 6.0";
    const Result<RankStream> refused = come_to_leader(stranger, false);
    EXPECT_EQ(refused.ok() ? "" : refused.error().message,
              "rank 1 has the launch Slurm 6.0, and rank 0 Slurm 7.0; start all ranks with the "
              "same program and command line, and as many --threads");
    EXPECT_TRUE(come_to_leader(agent, false).ok());
  });
  EXPECT_TRUE(gate->admit(seconds_from_now(10)).ok());
  comes.join();
}

TEST(RankGate, refuses_what_asks_for_something_else) {
  const std::map<std::string, std::string> leaders = {{"--pp", "1"}, {"--tp", "2"}};
  const RankHello first = {
      .build = "1", .launch = "a", .machine = "m", .size = 2, .asked = leaders};
  const auto come = [&](std::map<std::string, std::string> asked) {
    AgentOptions agent = {
        .self = first, .leader = "127.0.0.1", .port = port_of(listen_tcp(0).value())};
    agent.self.rank = 1;
    agent.self.asked = std::move(asked);
    const auto gate = RankGate::open(agent.port, first).value();
    std::string heard;
    std::thread comes([&] {
      const Result<RankStream> stream = come_to_leader(agent, false);
      if (!stream.ok()) heard = stream.error().message;
    });
    const auto all = gate->admit(seconds_from_now(10));
    comes.join();
    EXPECT_EQ(heard, all.ok() ? "" : all.error().message);
    return heard;
  };
  EXPECT_EQ(come(leaders), "");
  EXPECT_EQ(come({}), "");  // it leaves to rank 0 what this decides
  EXPECT_EQ(come({{"--pp", "2"}}),
            "rank 1 has --pp 2, and rank 0 1; start all ranks with the same program and command "
            "line, and as many --threads");
}

TEST(RankGate, refuses_another_version_of_the_language) {
  const RankHello first = {.build = "1", .launch = "a", .machine = "m", .size = 2};
  const int port = port_of(listen_tcp(0).value());
  const auto gate = RankGate::open(port, first).value();
  const OwnedFd other = connect_tcp("127.0.0.1", port, seconds_from_now(10), false).value();
  const std::uint32_t frame[] = {0x4b4e5247, kRankWireVersion - 1, 0, 0};
  ASSERT_EQ(::send(other.get(), frame, sizeof frame, 0), ssize_t{sizeof frame});
  const auto came = gate->admit(seconds_from_now(10));
  ASSERT_FALSE(came.ok());
  EXPECT_NE(came.error().message.find("start all ranks with the same program"), std::string::npos);
  std::uint32_t answer[4] = {};
  EXPECT_EQ(::recv(other.get(), answer, sizeof answer, MSG_WAITALL), ssize_t{sizeof answer});
  EXPECT_EQ(answer[1], kRankWireVersion);
}

TEST(RankGate, strangers_do_not_hold_it_beyond_its_time) {
  const RankHello first = {.build = "1", .launch = "a", .machine = "m", .size = 2};
  const int port = port_of(listen_tcp(0).value());
  const auto gate = RankGate::open(port, first).value();
  std::atomic<bool> is_over = false;
  std::thread strangers([&] {
    while (!is_over) {  // each sends a message now and then, and its successor is there at once
      const OwnedFd one = connect_tcp("127.0.0.1", port, seconds_from_now(10), false).value();
      for (int i = 0; i < 3 && !is_over; ++i) {
        (void)::send(one.get(), "G", 1, MSG_NOSIGNAL);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    }
  });
  const Result<std::vector<RankGate::Newcomer>> came = gate->admit(seconds_from_now(1));
  EXPECT_NE(came.error().message.find("rank 1 of 2 has not come"), std::string::npos);
  is_over = true;
  strangers.join();
}

TEST(RankGate, strangers_that_say_nothing_delay_nobody) {
  const RankHello first = {.build = "1", .launch = "a", .machine = "m", .size = 2};
  AgentOptions agent = {
      .self = first, .leader = "127.0.0.1", .port = port_of(listen_tcp(0).value())};
  agent.self.rank = 1;
  const auto gate = RankGate::open(agent.port, first).value();
  std::vector<OwnedFd> silent;  // each may be so for 5 s
  for (int i = 0; i < 4; ++i) {
    silent.push_back(connect_tcp(agent.leader, agent.port, seconds_from_now(10), false).value());
  }
  std::thread comes([&] { EXPECT_TRUE(come_to_leader(agent, false).ok()); });
  EXPECT_TRUE(gate->admit(seconds_from_now(15)).ok());
  comes.join();
}

// One begins a hello and says no more; one is of another version, once all have met.
TEST(RankGate, strangers_that_know_the_frame_are_no_fault_of_a_rank) {
  const RankHello first = {.build = "1", .launch = "a", .machine = "m", .size = 2};
  AgentOptions agent = {
      .self = first, .leader = "127.0.0.1", .port = port_of(listen_tcp(0).value())};
  agent.self.rank = 1;
  const auto gate = RankGate::open(agent.port, first).value();
  const auto meet = [&](std::uint32_t version, std::uint32_t bytes) {
    const std::uint32_t frame[] = {0x4b4e5247, version, bytes, 0};
    const OwnedFd stranger =
        connect_tcp(agent.leader, agent.port, seconds_from_now(10), false).value();
    EXPECT_EQ(::send(stranger.get(), frame, sizeof frame, 0), ssize_t{sizeof frame});
    const auto begin = std::chrono::steady_clock::now();
    std::thread comes([&] { EXPECT_TRUE(come_to_leader(agent, false).ok()); });
    const auto came = gate->admit(seconds_from_now(10));
    comes.join();
    EXPECT_TRUE(came.ok()) << came.error().message;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  };
  meet(kRankWireVersion, 100);
  meet(kRankWireVersion - 1, 0);
}

TEST(RankGate, gives_a_place_to_the_first_that_is_there) {
  RankHello self = {.build = "1", .launch = "a", .machine = "m", .size = 3};
  const int port = port_of(listen_tcp(0).value());
  const auto gate = RankGate::open(port, self).value();
  const auto come = [&](int rank) {
    RankStream stream(connect_tcp("127.0.0.1", port, seconds_from_now(10), false).value());
    self.rank = rank;
    EXPECT_TRUE(stream.send(write_hello(self)).ok());
    return stream;
  };
  std::thread others([&] {
    RankStream first = come(1), second = come(1);
    EXPECT_TRUE(first.receive().ok());
    EXPECT_FALSE(second.receive().ok());
    first = RankStream();
    RankStream third = come(1), last = come(2);
    EXPECT_TRUE(third.receive().ok() && last.receive().ok());
    EXPECT_EQ(third.receive().value(), "start");
  });
  std::vector<RankGate::Newcomer> all = gate->admit(seconds_from_now(10)).value();
  EXPECT_TRUE(all[0].stream.send("start").ok());
  others.join();
}

TEST(RankAgent, is_patient_with_who_hangs_up_and_refuses_who_is_no_rank) {
  std::optional<OwnedFd> listener = listen_tcp(0).value();
  const AgentOptions agent = {.self = kHello, .leader = "127.0.0.1", .port = port_of(*listener)};
  Result<RankStream> end = Error{};
  std::thread comes([&] { end = come_to_leader(agent, false); });
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) (void)accept_tcp(*listener, seconds_from_now(10)).value();
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
  const OwnedFd came = accept_tcp(*listener, seconds_from_now(10)).value();
  EXPECT_GT(::send(came.get(), "SSH-2.0-OpenSSH_9.2\r\n", 21, 0), 0);
  comes.join();
  ASSERT_FALSE(end.ok());
  EXPECT_NE(end.error().message.find("is no rank of glint"), std::string::npos);
}

// One that replaces another comes to a leader that takes nobody in while it serves.
TEST(RankAgent, ends_with_a_leader_that_never_took_it_in) {
  std::optional<OwnedFd> listener = listen_tcp(0).value();
  const AgentOptions agent = {.self = kHello, .leader = "127.0.0.1", .port = port_of(*listener)};
  Status end = Error{};
  const auto begin = std::chrono::steady_clock::now();
  std::thread comes([&] { end = run_rank_agents({agent}); });
  const OwnedFd came = accept_tcp(*listener, seconds_from_now(10)).value();
  listener.reset();
  ::shutdown(came.get(), SHUT_RDWR);
  comes.join();
  EXPECT_TRUE(end.ok()) << end.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// Ranks of two machines that come to be of 3, each of which runs rank(stream) then; the failure.
std::string end_of_ranks(const std::function<void(int rank, RankStream& stream)>& rank) {
  RankHello self = {.build = "1", .launch = "a", .machine = "m", .size = 3};
  const int port = port_of(listen_tcp(0).value());
  RankProcessOptions options;
  options.model.shape.tp = 3;
  options.gate = RankGate::open(port, self).value();
  std::vector<std::thread> others;
  self.machine = "n";
  for (self.rank = 1; self.rank < self.size; ++self.rank) {
    others.emplace_back([self, port, &rank] {
      RankStream stream =
          come_to_leader({.self = self, .leader = "127.0.0.1", .port = port}, false).value();
      const std::string start = stream.receive().value();
      rank(self.rank, stream);
    });
  }
  const auto ranks = RankProcesses::start(std::move(options));
  for (std::thread& other : others) other.join();
  return ranks.ok() ? "they have met" : ranks.error().message;
}

TEST(RankProcesses, name_at_once_the_rank_that_ends_before_all_are_connected) {
  const auto begin = std::chrono::steady_clock::now();
  const auto connects = [](int rank, RankStream& stream) {
    EXPECT_TRUE(stream.send(R"({"port": 1})").ok());
    EXPECT_TRUE(stream.receive().ok());
    if (rank == 1) (void)stream.receive();  // it waits for the other, and hears no more
  };
  EXPECT_EQ(end_of_ranks(connects), "rank 2 has ended");
  const auto fails = [&](int rank, RankStream& stream) {
    connects(rank, stream);
    if (rank == 2) (void)stream.send(R"({"error": "no way to rank 1", "code": 2})");
  };
  EXPECT_EQ(end_of_ranks(fails), "rank 2: no way to rank 1");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace glint
