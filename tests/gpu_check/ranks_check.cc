// Ranks on the GPUs of this machine, a thread each: every call of a group against the same group on
// the host, bit for bit, in each way that bytes move, and what calls write once a rank is lost;
// then microseconds of sums beside NCCL's own. Arguments: the number of ranks (default: all GPUs).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/comm/gpu_comm.h"
#include "backends/cuda/cuda_ops.h"
#include "comm/shared_comm.h"
#include "comm/testing/compare_collectives.h"

namespace glint::cuda {
namespace {

constexpr int kTimes = 200;

class Rank {
 public:
  Rank(Comm& host, int ordinal) : host_(host), device_(CudaDevice::make(ordinal).value()) {}

  // Whether all calls agree.
  bool compare(bool use_windows) {
    GpuComm comm(host_, *device_, use_windows);
    if (!connect(comm)) return false;
    std::string differs = compare_collectives(host_, comm, *device_);
    if (differs.empty() && !repeats(comm)) differs = "a recorded sum differs after a larger one";
    if (differs.empty() && !deals_many_rows(comm)) differs = "an exchange of many rows differs";
    say("%-32s %s\n", comm.way(), differs.empty() ? "agrees with the host" : differs.c_str());
    return differs.empty();
  }

  // Whether a sum that was recorded is right after one that takes more memory.
  bool repeats(GpuComm& comm) {
    constexpr std::int64_t kSmall = 1 << 20, kLarge = 64 << 20;
    const Buffer part = device_->allocate(4 * kLarge), sum = device_->allocate(4 * kLarge);
    const std::vector<float> ones(kLarge, 1.0f);
    device_->copy_in(part.data(), ones.data(), 4 * kLarge);
    const auto add = [&](std::int64_t size) {
      comm.all_reduce(Tensor(part.data(), DType::kF32, {size}),
                      Tensor(sum.data(), DType::kF32, {size}));
    };
    add(kSmall);
    const auto graph = device_->capture([&] { add(kSmall); });
    add(kLarge);
    std::vector<float> large(kLarge);
    device_->copy_out(large.data(), sum.data(), 4 * kLarge);
    comm.barrier();
    const Buffer other = device_->allocate(4 * kLarge);  // maybe where the small one's parts were
    device_->copy(other.data(), part.data(), 4 * kLarge);
    device_->copy(sum.data(), part.data(), 4 * kSmall);
    graph->launch();
    std::vector<float> got(kSmall), kept(kLarge);
    const auto summed = static_cast<float>(comm.size());
    if (large != std::vector<float>(kLarge, summed)) return false;
    device_->copy_out(got.data(), sum.data(), 4 * kSmall);
    device_->copy_out(kept.data(), other.data(), 4 * kLarge);
    return got == std::vector<float>(kSmall, summed) && kept == ones;
  }

  // Whether more rows come than a group has memory for: each rank deals as many to each.
  bool deals_many_rows(GpuComm& comm) {
    constexpr std::int64_t kWidth = 1024, kRows = 30'000;
    const std::int64_t each = kRows / size(), rows = each * size();
    std::vector<float> sent(static_cast<std::size_t>(rows * kWidth)), got(sent.size());
    for (std::int64_t i = 0; i < rows; ++i)
      std::fill_n(sent.begin() + i * kWidth, kWidth, number_of(host_.rank(), i));
    std::vector<std::int32_t> offsets, first;
    for (int s = 0; s < size(); ++s) {
      for (int r = 0; r <= size(); ++r) offsets.push_back(static_cast<std::int32_t>(r * each));
    }
    for (int r = 0; r <= size(); ++r) first.push_back(r);
    const Buffer x = device_->allocate(4 * sent.size()), out = device_->allocate(4 * sent.size()),
                 dealt = device_->allocate(4 * offsets.size());
    device_->copy_in(x.data(), sent.data(), x.bytes());
    device_->copy_in(dealt.data(), offsets.data(), dealt.bytes());
    const ExchangeArgs args = {.x = Tensor(x.data(), DType::kF32, {rows, kWidth}),
                               .offsets = Tensor(dealt.data(), DType::kI32, {size(), size() + 1}),
                               .first = first,
                               .out = Tensor(out.data(), DType::kF32, {rows, kWidth})};
    comm.exchange(args);
    device_->copy_out(got.data(), out.data(), out.bytes());
    for (std::int64_t i = 0; i < rows * kWidth; ++i) {
      const auto from = static_cast<int>(i / kWidth / each);
      const std::int64_t row = host_.rank() * each + i / kWidth % each;
      if (got[static_cast<std::size_t>(i)] != number_of(from, row)) return false;
    }
    ExchangeArgs back = args;
    std::swap(back.x, back.out);
    back.backwards = true;
    comm.exchange(back);
    device_->copy_out(got.data(), x.data(), x.bytes());
    return got == sent;
  }
  static float number_of(int rank, std::int64_t row) {
    return static_cast<float>(rank * 100'000 + row);
  }

  // Whether rank 0 gets zeros of calls that the others, which end the group, do not make.
  bool gets_zeros(const SharedGroup& group, bool use_windows, std::latch& done) {
    constexpr std::int64_t kSize = 100'000;
    GpuComm comm(host_, *device_, use_windows);
    if (!connect(comm)) return false;
    const Buffer part = device_->allocate(4 * kSize), all = device_->allocate(4 * kSize * size());
    const std::vector<float> ones(static_cast<std::size_t>(kSize * size()), 1.0f);
    device_->copy_in(part.data(), ones.data(), 4 * kSize);
    device_->copy_in(all.data(), ones.data(), all.bytes());
    comm.barrier();
    if (host_.rank() > 0) {
      group.end();
      done.wait();
      return true;
    }
    comm.all_gather(Tensor(part.data(), DType::kF32, {kSize}),
                    Tensor(all.data(), DType::kF32, {kSize * size()}));
    comm.all_reduce(Tensor(part.data(), DType::kF32, {kSize}),
                    Tensor(part.data(), DType::kF32, {kSize}));
    std::vector<float> gathered(ones), sum(kSize);
    device_->copy_out(gathered.data(), all.data(), all.bytes());
    device_->copy_out(sum.data(), part.data(), 4 * kSize);
    done.count_down();
    const bool zeros =
        gathered == std::vector<float>(ones.size()) && sum == std::vector<float>(kSize);
    say("%-32s %s\n", comm.way(), zeros ? "writes zeros for lost ranks" : "keeps what was there");
    return zeros;
  }

  void time_sums() {
    GpuComm comm(host_, *device_, true);
    if (!connect(comm)) return;
    say("\nall_reduce of f32 to bf16, us a call in a graph of %d\n%12s %10s %10s %10s\n", kTimes,
        "bytes", "one shot", "two shots", "NCCL");
    for (std::int64_t size = 6144; size <= 6144 * 1024; size *= 4) {
      const Buffer part = device_->allocate(static_cast<std::size_t>(size) * 4);
      const Buffer sum = device_->allocate(static_cast<std::size_t>(size) * 4);
      const Tensor x(part.data(), DType::kF32, {size}), out(sum.data(), DType::kBF16, {size});
      const Tensor out_f32(sum.data(), DType::kF32, {size});
      const auto us = [&](const std::function<void()>& call) {
        call();
        device_->synchronize();
        const auto graph = device_->capture([&] {
          for (int i = 0; i < kTimes; ++i) call();
        });
        comm.barrier();
        const Event begin = device_->record();
        graph->launch();
        const Event end = device_->record();
        comm.barrier();
        return device_->seconds_between(begin, end) * 1e6 / kTimes;
      };
      const double one = us([&] { comm.all_reduce_by(Shots::kOne, x, out); });
      const double two = us([&] { comm.all_reduce_by(Shots::kTwo, x, out); });
      const double nccl = us([&] { comm.all_reduce_by_nccl(x, out_f32); });
      say("%12lld %10.2f %10.2f %10.2f\n", static_cast<long long>(size * 4), one, two, nccl);
    }
  }

 private:
  bool connect(GpuComm& comm) {
    const std::int64_t before = device_->memory().available;
    const Status connected = comm.connect();
    if (!connected.ok()) {
      std::printf("rank %d: %s\n", host_.rank(), connected.error().message.c_str());
      return false;
    }
    say("a group takes %lld MiB of each GPU\n",
        static_cast<long long>((before - device_->memory().available) >> 20));
    return true;
  }
  template <class... Args>
  void say(const char* format, Args... args) {
    if (host_.rank() == 0) std::printf(format, args...), std::fflush(stdout);
  }

  int size() const { return host_.size(); }

  Comm& host_;
  const std::unique_ptr<CudaDevice> device_;
};

// A group of one adds slices of its own.
bool alone() {
  const auto host = make_thread_comms(1);
  const std::unique_ptr<CudaDevice> device = CudaDevice::make(0).value();
  GpuComm comm(*host[0], *device, true);
  if (!comm.connect().ok()) return false;
  const Buffer part = device->allocate(6000), sum = device->allocate(6000);
  const std::vector<float> values(1500, 1.25f);
  device->copy_in(part.data(), values.data(), 6000);
  comm.all_reduce(Tensor(part.data(), DType::kF32, {1500}),
                  Tensor(sum.data(), DType::kF32, {1500}));
  std::vector<float> got(1500);
  device->copy_out(got.data(), sum.data(), 6000);
  std::printf("%-32s %s\n", comm.way(), got == values ? "agrees with the host" : "differs");
  return got == values;
}

// Whether f(a rank, its group) is true for each of a group's.
template <class F>
bool on_ranks(int size, F&& f) {
  const SharedGroup group = SharedGroup::map(size, -1).value();
  std::vector<std::thread> threads;
  std::vector<char> agree(static_cast<std::size_t>(size), 0);
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      const auto host = make_shared_comm(group, r);
      Rank rank(*host, r);
      agree[static_cast<std::size_t>(r)] = f(rank, group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::find(agree.begin(), agree.end(), 0) == agree.end();
}

int run(int size) {
  bool agree = true;
  for (const bool use_windows : {true, false}) {
    std::latch done(1);
    agree &= on_ranks(size, [&](Rank& rank, const SharedGroup& group) {
      return rank.gets_zeros(group, use_windows, done);
    });
  }
  agree &= on_ranks(size, [](Rank& rank, const SharedGroup&) {
    const bool by_windows = rank.compare(true), by_nccl = rank.compare(false);
    rank.time_sums();
    return by_windows && by_nccl;
  });
  return agree ? 0 : 1;
}

}  // namespace
}  // namespace glint::cuda

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : glint::num_cuda_devices();
  if (size < 1 || size > glint::num_cuda_devices()) {
    std::printf("there are %d GPUs, and %d ranks were asked for\n", glint::num_cuda_devices(),
                size);
    return 2;
  }
  const bool one_agrees = glint::cuda::alone();
  const int others = size > 1 ? glint::cuda::run(size) : 0;
  return one_agrees ? others : 1;
}
