#include "backends/cuda/comm/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/check_cuda.h"
#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/comm/window_pointers.h"
#include "base/ceil_div.h"
#include "base/contains.h"
#include "base/str.h"
#include "comm/all_of.h"

namespace glint::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(20);  // whether the group has ended
constexpr auto kMostConnecting = std::chrono::seconds(120);
constexpr auto kMostCalling = std::chrono::seconds(2);
constexpr auto kMostLeaving = std::chrono::seconds(5);  // of the steps in flight, in windows
// Sums of so many f32 at most are added by every rank.
constexpr std::int64_t kMostAlone = std::int64_t{64} << 10;
constexpr std::int64_t kScratchFloats = kGroupScratch / sizeof(float);
constexpr const char* kNotAllCame = "not all ranks came within 120 s, or one was lost";

std::size_t bytes_of(const Tensor& x) { return x.bytes().size(); }

// Elements [at, at + n) of a dense tensor.
Tensor stretch(const Tensor& x, std::int64_t at, std::int64_t n) {
  return Tensor(x.data + at * size_of(x.dtype), x.dtype, {n});
}

// Cuts each entry of `all` to the rows [at, at + most) of what its sender sends.
std::vector<SentRows> cut_out(std::vector<SentRows> all, std::int64_t at, std::int64_t most) {
  for (SentRows& s : all) {
    const std::int64_t begin = std::max(s.begin, at);
    const std::int64_t end = std::min(s.begin + s.count, at + most);
    s.at += begin - s.begin;
    s.begin = begin, s.count = std::max(end - begin, std::int64_t{0});
  }
  return all;
}

}  // namespace

NcclGroup::NcclGroup(const NcclLibrary& nccl, Comm& host, CudaDevice& device)
    : nccl_(nccl),
      host_(host),
      device_(device),
      rank_(host.rank()),
      size_(host.size()),
      pinned_(device.allocate_pinned(sizeof(std::atomic<std::uint32_t>))) {
  GLINT_CHECK(pinned_.data(), "no memory to pin for a group of ranks");
  ended_ = new (pinned_.data()) std::atomic<std::uint32_t>(0);
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::make(const NcclLibrary& nccl, Comm& host,
                                                   CudaDevice& device) {
  std::unique_ptr<NcclGroup> group(new NcclGroup(nccl, host, device));
  GLINT_TRY_STATUS(group->connect().in("connecting the ranks' GPUs by NCCL"));
  return group;
}

bool NcclGroup::all_say(bool mine) { return !contains(all_of<std::int32_t>(mine, host_), 0); }

Status NcclGroup::expect_room(bool mine, std::size_t bytes) {
  if (all_say(mine)) return Ok{};
  const std::atomic<std::uint32_t>* const lost = host_.ended();
  if (lost && lost->load() != 0) return unavailable(kNotAllCame);
  return exhausted(str("no room on ", mine ? "another rank's GPU" : device_.name(), " for ",
                       bytes >> 20,
                       " MiB that ranks share; end what else runs on it, or give the model less "
                       "memory"));
}

Status NcclGroup::connect() {
  scratch_ = device_.allocate(kGroupScratch);
  GLINT_TRY_STATUS(expect_room(scratch_.data() != nullptr, kGroupScratch));
  struct Introduction {
    std::int32_t result = ncclSuccess;
    ncclUniqueId id = {};
  } hello;
  if (rank_ == 0) hello.result = nccl_.GetUniqueId(&hello.id);
  host_.broadcast(Tensor(&hello, DType::kI32, {sizeof hello / sizeof(std::int32_t)}), 0);
  const auto failed = [&](ncclResult_t result) {
    return unavailable(
        str(nccl_.GetErrorString(result), " (NCCL_DEBUG=WARN in the environment says more)"));
  };
  if (hello.result != ncclSuccess) return failed(static_cast<ncclResult_t>(hello.result));
  if (const std::atomic<std::uint32_t>* const ended = host_.ended()) {
    watcher_ = std::thread([this, ended] { watch(*ended); });
  }
  device_.synchronize();  // and selects it
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result = ncclInProgress;
  {
    const std::lock_guard lock(calling_);
    ncclComm_t comm = nullptr;
    result = nccl_.CommInitRankConfig(&comm, size_, hello.id, rank_, &config);
    comm_ = comm;
    result = settle(result);
  }
  const bool have_all = all_say(result == ncclSuccess);
  if (result != ncclSuccess && result != ncclInProgress) return failed(result);
  return have_all ? Status(Ok{}) : Status(unavailable(kNotAllCame));
}

ncclResult_t NcclGroup::settle(ncclResult_t result) {
  for (const auto begin = Clock::now(); result == ncclInProgress;) {
    const ncclComm_t comm = comm_;
    if (!comm || has_ended() || Clock::now() - begin > kMostConnecting) return ncclInProgress;
    if (const ncclResult_t asked = nccl_.CommGetAsyncError(comm, &result); asked != ncclSuccess)
      return asked;
    if (result == ncclInProgress) std::this_thread::yield();
  }
  return result;
}

// Until the group ends, here or on the host: then kernels wait no longer, ours nor NCCL's.
void NcclGroup::watch(const std::atomic<std::uint32_t>& host_ended) {
  while (!ending_ && host_ended.load() == 0) std::this_thread::sleep_for(kLook);
  if (ending_) return;
  ended_->store(1, std::memory_order_release);
  // Kernels that talk through windows leave by themselves, and touch memory that the abort unmaps.
  const auto begin = Clock::now();
  while (has_windows_ && Clock::now() - begin < kMostLeaving) {
    if (ending_) return;
    std::this_thread::sleep_for(kLook);
  }
  // A call that is under way sees the end. One that waits for room in the device's queue, behind
  // kernels that wait for who is lost, ends by the abort only.
  const std::unique_lock lock(calling_, kMostCalling);
  if (const ncclComm_t comm = comm_.exchange(nullptr)) nccl_.CommAbort(comm);
}

NcclGroup::~NcclGroup() {
  ending_ = true;
  if (watcher_.joinable()) watcher_.join();
  if (!has_ended()) device_.synchronize();
  const auto begin = Clock::now();
  while (!device_.is_idle() && Clock::now() - begin < kMostLeaving) {
    std::this_thread::sleep_for(kLook);
  }
  if (const ncclComm_t comm = comm_) {
    if (window_ && !has_ended()) settle(nccl_.CommWindowDeregister(comm, window_));
    nccl_.CommAbort(comm);
  }
  device_.synchronize();
  if (window_memory_) nccl_.MemFree(window_memory_);
}

Result<Windows> NcclGroup::make_windows() {
  has_windows_ = true;
  turns_ = device_.allocate(2 * kWindowBlocks * sizeof(std::uint32_t));
  if (nccl_.MemAlloc(&window_memory_, kWindowBytes) != ncclSuccess) window_memory_ = nullptr;
  GLINT_TRY_STATUS(expect_room(turns_.data() && window_memory_, kWindowBytes));
  Windows windows = {.turns = reinterpret_cast<std::uint32_t*>(turns_.data()),
                     .ended = reinterpret_cast<const std::uint32_t*>(ended_),
                     .rank = rank_,
                     .size = size_};
  device_.run("windows", [&](const Gpu& gpu) {
    check_cuda(cudaMemsetAsync(turns_.data(), 0, turns_.bytes(), gpu.stream), "clear turns");
    check_cuda(cudaMemsetAsync(window_memory_, 0, kFlagBytes, gpu.stream), "clear flags");
  });
  device_.synchronize();
  ncclResult_t result = ncclInProgress;
  {
    const std::lock_guard lock(calling_);
    if (const ncclComm_t comm = comm_) {
      result = nccl_.CommWindowRegister(comm, window_memory_, kWindowBytes, &window_,
                                        NCCL_WIN_COLL_SYMMETRIC);
      // It says success, too, where it has but begun.
      result = settle(result == ncclSuccess ? ncclInProgress : result);
    }
  }
  const bool is_made = result == ncclSuccess && window_;
  if (is_made) {
    device_.run("windows", [&](const Gpu& gpu) { find_windows(window_, size_, gpu, &windows); });
  }
  const bool have_all = all_say(is_made);  // and all flags are clear
  if (!is_made && result != ncclInProgress) {
    return unavailable(str("NCCL makes no window of the GPUs' memory (",
                           nccl_.GetErrorString(result),
                           "); --disable-custom-all-reduce does without"));
  }
  if (!have_all) return unavailable(kNotAllCame);
  return windows;
}

template <class Call>
void NcclGroup::run(const char* name, const Tensor& written, Call&& call) {
  device_.run(name, [&](const Gpu& gpu) {
    {
      const std::lock_guard lock(calling_);
      const ncclComm_t comm = comm_;
      const ncclResult_t result = comm ? settle(call(comm, gpu.stream)) : ncclSuccess;
      GLINT_CHECK(has_ended() || result == ncclSuccess,
                  str(name, ": ", nccl_.GetErrorString(result)));
    }
    // A call of NCCL may end in the middle, long after it was made.
    if (written) {
      launch_clear_if(reinterpret_cast<const std::uint32_t*>(ended_), written, gpu);
    }
  });
}

void NcclGroup::all_gather(const Tensor& mine, const Tensor& all) {
  if (bytes_of(mine) == 0) return;
  run("all_gather", all, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_.AllGather(mine.data, all.data, bytes_of(mine), ncclInt8, comm, stream);
  });
}

void NcclGroup::all_reduce(const Tensor& partial, const Tensor& out) {
  const std::int64_t n = out.size();
  // As much as scratch_ has room for, with shares that are rounded up.
  const std::int64_t most = kScratchFloats / 2 - size_;
  for (std::int64_t at = 0; at < n; at += most) {
    const std::int64_t count = std::min(most, n - at);
    add_up(stretch(partial, at, count), stretch(out, at, count));
  }
}

void NcclGroup::add_up(const Tensor& partial, const Tensor& out) {
  const std::int64_t n = out.size();
  float* const parts = scratch_floats();
  if (n <= std::min(kMostAlone, kScratchFloats / size_)) {
    all_gather(partial, Tensor(parts, DType::kF32, {size_ * n}));
    return device_.run("all_reduce",
                       [&](const Gpu& gpu) { launch_add_parts(parts, size_, n, out, gpu); });
  }
  // Each adds its share for all; the last ones may be short, or empty.
  const std::int64_t share = ceil_div(n, std::int64_t{size_});
  float* const sums = parts + size_ * share;
  const auto count = [&](int rank) { return std::clamp(n - rank * share, std::int64_t{0}, share); };
  run("all_reduce", Tensor(parts, DType::kF32, {size_ * share}),
      [&](ncclComm_t comm, cudaStream_t stream) {
        nccl_.GroupStart();
        for (int r = 0; r < size_; ++r) {
          const auto theirs = static_cast<std::size_t>(count(r));
          const auto own = static_cast<std::size_t>(count(rank_));
          if (theirs > 0)
            nccl_.Send(partial.ptr<float>() + r * share, theirs, ncclFloat32, r, comm, stream);
          if (own > 0) nccl_.Recv(parts + r * share, own, ncclFloat32, r, comm, stream);
        }
        return nccl_.GroupEnd();
      });
  device_.run("all_reduce", [&](const Gpu& gpu) {
    launch_add_parts(parts, size_, share, Tensor(sums + rank_ * share, DType::kF32, {count(rank_)}),
                     gpu);
  });
  all_gather(Tensor(sums + rank_ * share, DType::kF32, {share}),
             Tensor(sums, DType::kF32, {size_ * share}));
  device_.run("all_reduce", [&](const Gpu& gpu) { launch_add_parts(sums, 1, 0, out, gpu); });
}

void NcclGroup::reduce_scatter(const Tensor& partial, const Tensor& out) {
  const std::int64_t all = out.size(), most = kScratchFloats / size_;
  float* const parts = scratch_floats();
  for (std::int64_t at = 0; at < all; at += most) {
    const std::int64_t n = std::min(most, all - at);
    run("reduce_scatter", Tensor(parts, DType::kF32, {size_ * n}),
        [&](ncclComm_t comm, cudaStream_t stream) {
          const auto count = static_cast<std::size_t>(n);
          nccl_.GroupStart();
          for (int r = 0; r < size_; ++r) {
            nccl_.Send(partial.ptr<float>() + r * all + at, count, ncclFloat32, r, comm, stream);
            nccl_.Recv(parts + r * n, count, ncclFloat32, r, comm, stream);
          }
          return nccl_.GroupEnd();
        });
    device_.run("reduce_scatter", [&](const Gpu& gpu) {
      launch_add_parts(parts, size_, n, stretch(out, at, n), gpu);
    });
  }
}

void NcclGroup::broadcast(const Tensor& x, int root) {
  if (bytes_of(x) == 0) return;
  run("broadcast", rank_ == root ? Tensor() : x, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_.Broadcast(x.data, x.data, bytes_of(x), ncclInt8, root, comm, stream);
  });
}

void NcclGroup::exchange(const ExchangeArgs& args) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(args.offsets.size()));
  GLINT_CHECK(args.offsets.is_dense(), "exchange: offsets with gaps");
  device_.copy_out(offsets.data(), args.offsets.data, bytes_of(args.offsets));
  ExchangeArgs on_host = args;
  on_host.offsets.data = reinterpret_cast<std::byte*>(offsets.data());
  const std::vector<SentRows> taken = rows_sent_to(on_host, rank_, size_);
  std::vector<SentRows> given;  // by whom it is for
  for (int r = 0; r < size_; ++r) {
    given.push_back(
        rows_sent_to(on_host, r, size_, /*fits=*/false)[static_cast<std::size_t>(rank_)]);
  }
  std::int64_t rows = 0;  // that any of these rows has before it, in the order in which it is sent
  for (const SentRows& s : given) rows = std::max(rows, s.begin + s.count);
  for (const SentRows& s : taken) rows = std::max(rows, s.begin + s.count);
  const std::int64_t row = (args.x.rank > 1 ? args.x.dim(1) : 1) * size_of(args.x.dtype);
  const auto most = static_cast<std::int64_t>(kGroupScratch) / row;
  GLINT_CHECK(most > 0, "exchange: a row is larger than the memory of a group");
  for (std::int64_t at = 0; at < rows; at += most) {
    move_rows(args, cut_out(given, at, most), cut_out(taken, at, most));
  }
}

void NcclGroup::move_rows(const ExchangeArgs& args, std::span<const SentRows> given,
                          std::span<const SentRows> taken) {
  const std::int64_t width = args.x.rank > 1 ? args.x.dim(1) : 1;
  const std::int64_t row = width * size_of(args.x.dtype);
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;  // of those given
  for (const SentRows& s : given) {
    if (s.count > 0) begin = std::min(begin, s.begin), end = std::max(end, s.begin + s.count);
  }
  if (begin < end) {
    const Tensor packed(scratch_.data(), args.x.dtype, {end - begin, width});
    const Tensor x = args.rows ? args.x : args.x.slice(0, begin, end - begin);
    const Tensor numbers = args.rows ? args.rows.slice(0, begin, end - begin) : Tensor();
    device_.run("exchange", [&](const Gpu& gpu) { launch_pack_rows(x, numbers, packed, gpu); });
  }
  run("exchange", args.out, [&](ncclComm_t comm, cudaStream_t stream) {
    nccl_.GroupStart();
    for (int r = 0; r < size_; ++r) {
      const SentRows &to = given[static_cast<std::size_t>(r)],
                     &from = taken[static_cast<std::size_t>(r)];
      if (to.count > 0) {
        nccl_.Send(scratch_.data() + (to.begin - begin) * row,
                   static_cast<std::size_t>(to.count * row), ncclInt8, r, comm, stream);
      }
      if (from.count > 0) {
        nccl_.Recv(args.out.data + from.at * row, static_cast<std::size_t>(from.count * row),
                   ncclInt8, r, comm, stream);
      }
    }
    return nccl_.GroupEnd();
  });
}

void NcclGroup::send(const Tensor& x, int to) {
  if (bytes_of(x) == 0) return;
  run("send", {}, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_.Send(x.data, bytes_of(x), ncclInt8, to, comm, stream);
  });
}

void NcclGroup::recv(const Tensor& x, int from) {
  if (bytes_of(x) == 0) return;
  run("recv", x, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_.Recv(x.data, bytes_of(x), ncclInt8, from, comm, stream);
  });
}

void NcclGroup::sum_by_nccl(const Tensor& partial, const Tensor& out) {
  run("all_reduce", out, [&](ncclComm_t comm, cudaStream_t stream) {
    return nccl_.AllReduce(partial.data, out.data, static_cast<std::size_t>(out.size()),
                           ncclFloat32, ncclSum, comm, stream);
  });
}

}  // namespace glint::cuda
