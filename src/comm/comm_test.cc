#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/owned_fd.h"
#include "base/random.h"
#include "base/str.h"
#include "comm/all_of.h"
#include "comm/connect_ranks.h"
#include "comm/counting_comm.h"
#include "comm/null_comm.h"
#include "comm/shared_comm.h"
#include "comm/socket_comm.h"
#include "comm/staged_comm.h"
#include "comm/testing/compare_collectives.h"
#include "comm/tree.h"
#include "tensor/testing/late_device.h"

namespace glint {
namespace {

// Runs `work` as every rank of a group of `size`, each in a process of its own, which maps the
// group's memory anew.
void on_processes(int size, const std::function<void(Comm&)>& work) {
  const int memory = ::memfd_create("ranks", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(memory, static_cast<off_t>(SharedGroup::bytes_for(size))), 0);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(::fork());
    if (processes.back() != 0) continue;
    const auto group = SharedGroup::map(size, memory);
    work(*make_shared_comm(group.value(), rank));
    ::_exit(testing::Test::HasFailure());
  }
  for (const pid_t process : processes) {
    int status = -1;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  ::close(memory);
}

// Runs `work` on ranks that are threads.
void on_threads(int size, const std::function<void(Comm&)>& work) {
  const auto comms = make_thread_comms(size);
  std::vector<std::thread> threads;
  for (const auto& comm : comms) threads.emplace_back([&] { work(*comm); });
  for (std::thread& thread : threads) thread.join();
}

// Sockets of each pair of ranks, by rank and peer.
std::vector<std::vector<OwnedFd>> sockets_of(int size) {
  std::vector<std::vector<OwnedFd>> all(static_cast<std::size_t>(size));
  for (auto& of_rank : all) of_rank.resize(static_cast<std::size_t>(size));
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      all[a][b] = OwnedFd(pair[0]);
      all[b][a] = OwnedFd(pair[1]);
    }
  }
  return all;
}

// Runs `work` on ranks that are threads and talk over sockets.
void on_sockets(int size, const std::function<void(Comm&)>& work) {
  auto sockets = sockets_of(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      SocketComm comm(rank, size, [](int peer) { ADD_FAILURE() << "lost rank " << peer; });
      comm.connect(std::move(sockets[static_cast<std::size_t>(rank)]));
      work(comm);
      comm.barrier();  // a rank that is done hangs up
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tensor tensor(std::vector<float>& values, std::int64_t width = 1) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Tensor(values.data(), DType::kF32, {size / width, width});
}

std::vector<float> part_of(int rank, std::int64_t size) {
  Random random(7, static_cast<std::uint64_t>(rank));
  std::vector<float> values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(static_cast<float>(random.uniform() - 0.5) * 100);
  }
  return values;
}

TEST(Tree, adds_halves_of_halves) {
  // The order shows in the bits: 2^24 + 1 + 1 is not 2^24 + 2.
  const float large = 16777216;
  const std::vector<float> parts = {large, 1, 1, -large, 3};
  const auto part = [&](int i) { return parts[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(tree_sum(1, part), large);
  EXPECT_EQ(tree_sum(2, part), large);
  EXPECT_EQ(tree_sum(3, part), large);                    // (0 + 1) + 2
  EXPECT_EQ(tree_sum(4, part), large + (1 - large));      // (0 + 1) + (2 + 3)
  EXPECT_EQ(tree_sum(5, part), large + (1 - large) + 3);  // and then 4
}

TEST(Tree, slices_of_a_rank_and_of_several_have_the_same_bits) {
  constexpr int kSlices = 8;
  std::vector<std::vector<float>> slices;
  for (int s = 0; s < kSlices; ++s) slices.push_back(part_of(s, 100));
  for (std::size_t i = 0; i < 100; ++i) {
    const float whole = tree_sum(kSlices, [&](int s) { return slices[s][i]; });
    for (const int ranks : {2, 4, 8}) {
      const int each = kSlices / ranks;
      const float sum = tree_sum(ranks, [&](int r) {
        return tree_sum(each, [&](int s) { return slices[r * each + s][i]; });
      });
      EXPECT_EQ(sum, whole);
    }
  }
}

struct Form {
  int size = 1;
  void (*run)(int, const std::function<void(Comm&)>&) = on_threads;
};
void on_ranks(const Form& form, const std::function<void(Comm&)>& work) {
  form.run(form.size, work);
}

class Ranks : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(threads, Ranks,
                         testing::Values(Form{1}, Form{2}, Form{3}, Form{4}, Form{7}));
INSTANTIATE_TEST_SUITE_P(processes, Ranks,
                         testing::Values(Form{1, on_processes}, Form{2, on_processes},
                                         Form{3, on_processes}));
INSTANTIATE_TEST_SUITE_P(sockets, Ranks,
                         testing::Values(Form{1, on_sockets}, Form{2, on_sockets},
                                         Form{3, on_sockets}, Form{4, on_sockets}));

TEST_P(Ranks, all_reduce_adds_by_the_tree) {
  const int size = GetParam().size;
  for (const std::int64_t elements : {0, 1, 5, 1000, 300'000}) {
    on_ranks(GetParam(), [&](Comm& comm) {
      std::vector<float> part = part_of(comm.rank(), elements);
      std::vector<BF16> rounded(part.size());
      const Tensor out(rounded.data(), DType::kBF16, {elements, 1});
      comm.all_reduce(tensor(part), out);
      comm.all_reduce(tensor(part), tensor(part));  // in its own place
      std::vector<std::vector<float>> parts;
      for (int r = 0; r < size; ++r) parts.push_back(part_of(r, elements));
      for (std::size_t i = 0; i < part.size(); ++i) {
        const float sum = tree_sum(size, [&](int r) { return parts[r][i]; });
        EXPECT_EQ(part[i], sum);
        EXPECT_EQ(to_float(rounded[i]), to_float(from_float<BF16>(sum)));
      }
    });
  }
}

TEST_P(Ranks, reduce_scatter_and_all_gather_are_all_reduce) {
  const int size = GetParam().size;
  constexpr std::int64_t kRows = 300, kWidth = 500;  // more than is told at once
  on_ranks(GetParam(), [&](Comm& comm) {
    std::vector<float> part = part_of(comm.rank(), size * kRows * kWidth);
    std::vector<float> mine(kRows * kWidth), all(part.size());
    comm.reduce_scatter(tensor(part, kWidth), tensor(mine, kWidth));
    comm.all_gather(tensor(mine, kWidth), tensor(all, kWidth));
    // And where they lie.
    std::vector<float> same = part;
    const Tensor rows = tensor(same, kWidth).slice(0, comm.rank() * kRows, kRows);
    comm.reduce_scatter(tensor(same, kWidth), rows);
    comm.all_gather(rows, tensor(same, kWidth));
    EXPECT_EQ(same, all);
    comm.all_reduce(tensor(part, kWidth), tensor(part, kWidth));
    EXPECT_EQ(all, part);
  });
}

TEST_P(Ranks, all_hear_what_each_tells) {
  struct Told {
    std::int64_t rank = 0;
    std::int32_t half = 0, other = 7;
  };
  on_ranks(GetParam(), [](Comm& comm) {
    const std::vector<Told> all = all_of(Told{comm.rank(), comm.rank() / 2}, comm);
    ASSERT_EQ(std::ssize(all), comm.size());
    for (int r = 0; r < comm.size(); ++r) {
      const Told& told = all[static_cast<std::size_t>(r)];
      EXPECT_EQ(told.rank, r);
      EXPECT_EQ(told.half, r / 2);
      EXPECT_EQ(told.other, 7);
    }
  });
}

TEST_P(Ranks, broadcast_and_letters_bring_what_was_sent) {
  const int size = GetParam().size;
  on_ranks(GetParam(), [&](Comm& comm) {
    for (int root = 0; root < size; ++root) {
      std::vector<float> values = part_of(comm.rank(), 9);
      comm.broadcast(tensor(values), root);
      EXPECT_EQ(values, part_of(root, 9));
    }
    // Down the line, twice: a second letter waits for the first to be read.
    for (int round = 0; round < 2; ++round) {
      std::vector<float> values = part_of(100 + round, 9), heard(9);
      if (comm.rank() > 0) {
        comm.recv(tensor(heard), comm.rank() - 1);
        EXPECT_EQ(heard, values);
      }
      if (comm.rank() + 1 < size) comm.send(tensor(values), comm.rank() + 1);
      std::fill(values.begin(), values.end(), -1.0f);
    }
  });
}

// Rank s has s + e % 3 rows for column e, but none at all if s is 1; rank r gets columns
// [first[r], first[r + 1]).
TEST_P(Ranks, exchange_deals_rows_out_and_brings_answers_back) {
  const int size = GetParam().size;
  constexpr int kColumns = 11;
  std::vector<std::int32_t> first, offsets;
  for (int r = 0; r <= size; ++r) first.push_back(kColumns * r / size);
  for (int s = 0; s < size; ++s) {
    std::int32_t at = 0;
    offsets.push_back(at);
    for (int e = 0; e < kColumns; ++e) offsets.push_back(at += s == 1 ? 0 : s + e % 3);
  }
  on_ranks(GetParam(), [&](Comm& comm) {
    const int rank = comm.rank();
    const std::int32_t* const mine = &offsets[rank * (kColumns + 1)];
    // A row says where it comes from and for which column it is.
    std::vector<float> rows;
    for (int e = 0; e < kColumns; ++e) {
      for (int i = mine[e]; i < mine[e + 1]; ++i) {
        rows.insert(rows.end(), {static_cast<float>(rank), static_cast<float>(e)});
      }
    }
    std::vector<float> got(2 * 1000, -1.0f), back(rows.size());
    const ExchangeArgs there = {
        .x = tensor(rows, 2),
        .offsets = Tensor(offsets.data(), DType::kI32, {size, kColumns + 1}),
        .first = first,
        .out = tensor(got, 2)};
    comm.exchange(there);
    std::size_t at = 0;
    for (int s = 0; s < size; ++s) {
      for (int e = first[rank]; e < first[rank + 1]; ++e) {
        const std::int32_t* const theirs = &offsets[s * (kColumns + 1)];
        for (int i = theirs[e]; i < theirs[e + 1]; ++i, at += 2) {
          EXPECT_EQ(got[at], s);
          EXPECT_EQ(got[at + 1], e);
        }
      }
    }
    EXPECT_EQ(got[at], -1);  // beyond the rows nothing is written
    // Answers may lie in another order: here backwards.
    std::vector<float> answers;
    std::vector<std::int32_t> places;
    for (std::size_t i = at; i > 0; i -= 2) {
      answers.insert(answers.end(), {got[i - 2] + 1000, got[i - 1] + 1000});
      places.push_back(static_cast<std::int32_t>(i / 2 - 1));
    }
    ExchangeArgs again = there;
    again.x = tensor(answers, 2);
    again.rows = Tensor(places.data(), DType::kI32, {static_cast<std::int64_t>(places.size())});
    again.out = tensor(back, 2);
    again.backwards = true;
    comm.exchange(again);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(back[i], rows[i] + 1000);
  });
}

// Late devices cannot be read by the host, and have done nothing until somebody waits.
TEST(StagedComm, moves_tensors_that_the_host_cannot_read) {
  for (const Form& form : {Form{1}, Form{3}, Form{2, on_sockets}}) {
    on_ranks(form, [](Comm& comm) {
      LateDevice device(std::size_t{256} << 20);
      StagedComm staged(comm, device);
      EXPECT_EQ(compare_collectives(comm, staged, device), "");
    });
  }
}

TEST(SharedGroup, that_has_ended_waits_for_nobody_and_can_begin_again) {
  const auto group = SharedGroup::map(2, -1);
  const auto first = make_shared_comm(group.value(), 0),
             second = make_shared_comm(group.value(), 1);
  std::vector<float> values(10, 3.0f);
  std::atomic<bool> has_sum = false;
  std::thread other([&] {
    std::vector<float> part(10, 2.0f);
    second->all_reduce(tensor(part), tensor(part));
    has_sum.wait(false);
    group.value().end();  // while the first waits for a second call
  });
  first->all_reduce(tensor(values), tensor(values));
  EXPECT_EQ(values, std::vector<float>(10, 5.0f));
  has_sum = true;
  has_sum.notify_all();
  first->all_reduce(tensor(values), tensor(values));
  other.join();
  EXPECT_EQ(values, std::vector<float>(10, 0.0f));
  first->recv(tensor(values), 1);
  ASSERT_TRUE(group.value().begin_again(-1).ok());
  std::thread again([&] {
    std::vector<float> part(10, 2.0f);
    second->broadcast(tensor(part), 1);
  });
  first->broadcast(tensor(values), 1);
  again.join();
  EXPECT_EQ(values, std::vector<float>(10, 2.0f));
}

TEST(SharedGroup, that_begins_again_leaves_others_with_the_memory_of_before) {
  const OwnedFd files[] = {OwnedFd(::memfd_create("a", 0)), OwnedFd(::memfd_create("b", 0))};
  for (const OwnedFd& file : files) {
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(SharedGroup::bytes_for(2))), 0);
  }
  const auto leaders = SharedGroup::map(2, files[0].get()),
             stopped = SharedGroup::map(2, files[0].get());
  std::vector<float> values(10);
  stopped.value().counters(1).add(CommKind::kSend, tensor(values));
  leaders.value().end();
  ASSERT_TRUE(leaders.value().begin_again(files[1].get()).ok());
  EXPECT_FALSE(leaders.value().ended());
  EXPECT_EQ(leaders.value().counters(1).uses()["send"].bytes, 40);
  make_shared_comm(stopped.value(), 1)->send(tensor(values), 0);
  EXPECT_TRUE(stopped.value().ended());
  EXPECT_EQ(leaders.value().counters(1).uses().size(), 1u);
}

TEST(SharedComm, a_call_that_differs_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      on_threads(2,
                 [](Comm& comm) {
                   std::vector<float> values(4 + comm.rank());
                   comm.broadcast(tensor(values), 0);
                 }),
      "rank 0 calls broadcast of F32 \\[4, 1\\], rank 1 calls broadcast of F32 \\[5, 1\\]");
}

TEST(SocketComm, a_call_that_differs_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto differ = [](const std::function<void(Comm&)>& first,
                         const std::function<void(Comm&)>& second) {
    on_sockets(2, [&](Comm& comm) {
      comm.barrier();
      comm.rank() == 0 ? first(comm) : second(comm);
    });
  };
  std::vector<float> four(4), five(5);
  std::vector<BF16> eight(8);
  const auto gather = [&](Comm& comm) {
    std::vector<float> all(8);
    comm.all_gather(tensor(four), tensor(all));
  };
  EXPECT_DEATH(
      differ(gather, [&](Comm& comm) { comm.all_reduce(tensor(five), tensor(five)); }),
      "rank [01] calls all_gather of 16 bytes of F32 as call 1, rank [01] calls all_reduce of 20 "
      "bytes of F32 as call 1|"
      "rank [01] calls all_reduce of 20 bytes of F32 as call 1, rank [01] calls all_gather of 16 "
      "bytes of F32 as call 1");
  EXPECT_DEATH(
      differ([&](Comm& comm) { comm.recv(tensor(four), 1); },
             [&](Comm& comm) { comm.send(Tensor(eight.data(), DType::kBF16, {8}), 0); }),
      "rank 0 calls recv of 16 bytes of F32 as call 1, rank 1 calls send of 16 bytes of BF16 as "
      "call 1");
  // A stranger's bytes.
  auto sockets = sockets_of(2);
  SocketComm comm(0, 2, [](int) {});
  comm.connect(std::move(sockets[0]));
  const std::string strange(24, '\x7f');
  ASSERT_EQ(::write(sockets[1][0].get(), strange.data(), strange.size()), 24);
  EXPECT_DEATH(comm.recv(tensor(four), 1), "rank 1 calls kind 2139062143 of .* of type 2139062143");
}

TEST(SocketComm, waits_for_nobody_who_is_gone_and_can_connect_again) {
  std::vector<int> lost;
  SocketComm comm(0, 2, [&](int peer) { lost.push_back(peer); });
  std::vector<float> values(10, 3.0f);
  comm.all_reduce(tensor(values), tensor(values));  // not connected yet
  EXPECT_EQ(values, std::vector<float>(10, 0.0f));
  auto sockets = sockets_of(2);
  comm.connect(std::move(sockets[0]));
  std::thread other([gone = std::move(sockets[1])] {});
  values.assign(10, 3.0f);
  comm.all_reduce(tensor(values), tensor(values));
  comm.recv(tensor(values), 1);
  EXPECT_EQ(values, std::vector<float>(10, 0.0f));
  EXPECT_EQ(lost, std::vector<int>{1});
  other.join();

  sockets = sockets_of(2);
  comm.connect(std::move(sockets[0]));
  EXPECT_EQ(*comm.ended(), 0u);
  std::thread ender([&] { comm.end(); });
  values.assign(10, 3.0f);
  comm.broadcast(tensor(values), 1);  // which nobody sends
  EXPECT_EQ(values, std::vector<float>(10, 0.0f));
  EXPECT_EQ(lost.size(), 1u);
  EXPECT_NE(*comm.ended(), 0u);
  ender.join();
}

// Counts and indices, too: nothing of before may be taken for them.
TEST(Comm, a_group_that_has_ended_writes_zeros_in_every_call) {
  const auto ended = SharedGroup::map(2, -1);
  ended.value().end();
  const auto shared = make_shared_comm(ended.value(), 0);
  SocketComm sockets(0, 2, [](int) {});  // not connected
  for (Comm* const comm : {shared.get(), static_cast<Comm*>(&sockets)}) {
    std::vector<float> x(8, 3.0f), out;
    std::vector<std::int32_t> offsets = {0, 1, 2, 0, 1, 2}, first = {0, 1, 2};
    const auto expect_zeros = [&](std::int64_t size, auto call) {
      out.assign(static_cast<std::size_t>(size), 3.0f);
      call(tensor(out));
      EXPECT_EQ(out, std::vector<float>(static_cast<std::size_t>(size)));
    };
    ExchangeArgs args = {
        .x = tensor(x, 4), .offsets = Tensor(offsets.data(), DType::kI32, {2, 3}), .first = first};
    const auto exchange = [&](const Tensor& to) {
      args.out = Tensor(to.data, DType::kF32, {2, 4});
      comm->exchange(args);
    };
    expect_zeros(8, [&](const Tensor& to) { comm->all_reduce(tensor(x), to); });
    expect_zeros(4, [&](const Tensor& to) { comm->reduce_scatter(tensor(x), to); });
    expect_zeros(16, [&](const Tensor& to) { comm->all_gather(tensor(x), to); });
    expect_zeros(8, [&](const Tensor& to) { comm->broadcast(to, 1); });
    expect_zeros(8, [&](const Tensor& to) { comm->recv(to, 1); });
    expect_zeros(8, exchange);
    args.backwards = true;
    expect_zeros(8, exchange);
  }
}

// Others may be lost while ranks connect: then all begin again.
TEST(ConnectRanks, fails_alike_with_ranks_that_refuse_and_that_do_not_come) {
  const OwnedFd listener = listen_tcp(0).value();
  const RankAddress gone = {"127.0.0.1", port_of(listen_tcp(0).value())};
  const std::vector<int> both[] = {{0, 1}};
  for (const int rank : {0, 1}) {
    const auto none = connect_ranks(listener, rank, {gone, gone}, both, 1, seconds_from_now(1));
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(none.error().message.starts_with(str("rank ", 1 - rank, " is not connected: ")));
    EXPECT_NE(none.error().message.find("must reach each other"), std::string::npos);
  }
}

TEST(ConnectRanks, say_why_nobody_came) {
  const OwnedFd listener = listen_tcp(0).value();
  const RankAddress here = {"127.0.0.1", port_of(listener)};
  const std::vector<int> both[] = {{0, 1}};
  const auto message = [&] {
    const auto none = connect_ranks(listener, 0, {here, here}, both, 1, seconds_from_now(1));
    return none.ok() ? "" : none.error().message;
  };
  const std::string begin =
      str("rank 1 is not connected: it has not come to port ", here.port, ": ");
  EXPECT_EQ(message().find(begin + "nobody has connected in time"), 0u);
  ASSERT_EQ(::shutdown(listener.get(), SHUT_RDWR), 0);
  EXPECT_EQ(message().find(begin + "nobody listens any more"), 0u);
}

TEST(NullComm, others_tell_what_this_one_does) {
  NullComm comm(1, 3);
  EXPECT_EQ(all_of<std::int32_t>(5, comm), (std::vector<std::int32_t>{5, 5, 5}));
}

TEST(CountingComm, counts_calls_and_bytes) {
  NullComm pair(0, 2);
  CountingComm comm(pair), alone(self_comm());
  std::vector<float> values(10);
  alone.all_reduce(tensor(values), tensor(values));
  EXPECT_TRUE(alone.uses().empty());
  comm.all_reduce(tensor(values), tensor(values));
  comm.all_reduce(tensor(values), tensor(values));
  comm.broadcast(tensor(values), 0);
  EXPECT_EQ(comm.uses().at("all_reduce").calls, 2);
  EXPECT_EQ(comm.uses().at("all_reduce").bytes, 80);
  EXPECT_EQ(comm.uses().at("broadcast").calls, 1);
  // From five rows of two floats, one goes out three times and one once; then their answers come.
  std::vector<std::int32_t> rows = {0, 0, 3, 0};
  ExchangeArgs args = {.x = tensor(values, 2), .rows = Tensor(rows.data(), DType::kI32, {4})};
  comm.exchange(args);
  EXPECT_EQ(comm.uses().at("exchange").bytes, 4 * 8);
  args = {.x = tensor(values, 2), .out = tensor(values, 2).slice(0, 0, 4), .backwards = true};
  comm.exchange(args);
  EXPECT_EQ(comm.uses().at("exchange").bytes, 2 * 4 * 8);
  comm.exchange({.x = tensor(values, 2)});
  EXPECT_EQ(comm.uses().at("exchange").bytes, 2 * 4 * 8 + 5 * 8);
}

}  // namespace
}  // namespace glint
