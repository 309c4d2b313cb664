#include "base/tcp.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <string>
#include <thread>

namespace glint {
namespace {

TEST(Tcp, connects_what_listens) {
  const OwnedFd listener = listen_tcp(0).value();
  const int port = port_of(listener);
  ASSERT_GT(port, 0);
  const Result<OwnedFd> to = connect_tcp("127.0.0.1", port, seconds_from_now(10), false);
  ASSERT_TRUE(to.ok()) << to.error().message;
  const Result<OwnedFd> from = accept_tcp(listener, seconds_from_now(10));
  ASSERT_TRUE(from.ok()) << from.error().message;
  EXPECT_EQ(peer_address(from.value().get()), "127.0.0.1");
  ASSERT_EQ(::send(to.value().get(), "x", 1, 0), 1);
  char got = 0;
  EXPECT_EQ(::recv(from.value().get(), &got, 1, 0), 1);
  EXPECT_EQ(got, 'x');
}

TEST(Tcp, gives_up_in_time) {
  const OwnedFd listener = listen_tcp(0).value();
  EXPECT_FALSE(accept_tcp(listener, seconds_from_now(0)).ok());
  const int port = port_of(listener);
  EXPECT_NE(listen_tcp(port).error().message.find(std::to_string(port)), std::string::npos);
}

TEST(Tcp, accepts_nobody_where_no_descriptor_is_left) {
  const OwnedFd listener = listen_tcp(0).value();
  const OwnedFd to =
      connect_tcp("127.0.0.1", port_of(listener), seconds_from_now(10), false).value();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(OwnedFd(::dup(to.get())).get());  // the first that is free
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<OwnedFd> from = accept_tcp(listener, seconds_from_now(1));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(from.error().message, "cannot accept a connection: Too many open files");
}

TEST(Tcp, gives_those_that_speak_before_those_that_came_first) {
  const OwnedFd listener = listen_tcp(0).value();
  const auto come = [&](std::string_view words) {
    OwnedFd to = connect_tcp("127.0.0.1", port_of(listener), seconds_from_now(10), false).value();
    EXPECT_EQ(::send(to.get(), words.data(), words.size(), 0), std::ssize(words));
    return to;
  };
  const OwnedFd silent = come(""), brief = come("12"), speaks = come("abc");
  SpeakingTcp comers(listener, 3, std::chrono::hours(1));
  const auto heard = [&] {
    const OwnedFd from = comers.accept(seconds_from_now(10)).value();
    char got[4] = {};
    return std::string(got, static_cast<std::size_t>(::recv(from.get(), got, 4, 0)));
  };
  EXPECT_EQ(heard(), "abc");
  ASSERT_EQ(::send(brief.get(), "3", 1, 0), 1);
  EXPECT_EQ(heard(), "123");
  EXPECT_FALSE(comers.accept(seconds_from_now(0)).ok());
}

TEST(Tcp, drops_those_that_say_nothing) {
  const OwnedFd listener = listen_tcp(0).value();
  const OwnedFd silent =
      connect_tcp("127.0.0.1", port_of(listener), seconds_from_now(10), false).value();
  SpeakingTcp comers(listener, 1, std::chrono::milliseconds(1));
  std::thread listens([&] { EXPECT_FALSE(comers.accept(seconds_from_now(20)).ok()); });
  pollfd end = {.fd = silent.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, 10'000), 1);  // hung up, while it is listened
  char none = 0;
  EXPECT_EQ(::recv(silent.get(), &none, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(::shutdown(listener.get(), SHUT_RDWR), 0);
  listens.join();
}

TEST(Tcp, tells_who_is_not_there) {
  int port = 0;
  {
    const OwnedFd listener = listen_tcp(0).value();
    port = port_of(listener);
  }
  const Result<OwnedFd> none = connect_tcp("127.0.0.1", port, seconds_from_now(60), false);
  EXPECT_NE(none.error().message.find("nobody listens"), std::string::npos);
  EXPECT_FALSE(connect_tcp("127.0.0.1", port, seconds_from_now(0), true).ok());
  const Result<OwnedFd> nowhere = connect_tcp("no.such.host.invalid", 1, seconds_from_now(0), true);
  EXPECT_NE(nowhere.error().message.find("no.such.host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace glint
