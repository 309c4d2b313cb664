#include "runtime/rank_launch.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace glint
