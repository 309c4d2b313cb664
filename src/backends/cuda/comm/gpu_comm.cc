#include "backends/cuda/comm/gpu_comm.h"

#include <vector>

#include "backends/cuda/check_cuda.h"
#include "backends/cuda/comm/make_gpu_comm.h"
#include "backends/cuda/comm/nccl_group.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/str.h"
#include "comm/all_of.h"
#include "comm/counting_comm.h"

namespace glint::cuda {
namespace {

// A call by our kernels, or by a group.
template <class... F>
struct Either : F... {
  using F::operator()...;
};
template <class... F>
Either(F...) -> Either<F...>;

struct Place {
  std::uint64_t host = 0;
  char bus[24] = {};  // the GPU's on its machine
  std::int32_t nccl = 0, unused = 0;
};

// Whose memory the GPU reads: a bit for each rank's.
std::uint32_t peers_of(int ordinal, const std::vector<Place>& all, std::uint64_t machine) {
  std::uint32_t peers = 0;
  for (std::size_t r = 0; r < all.size() && r < 32; ++r) {
    int other = -1, can = 0;
    if (all[r].host != machine || cudaDeviceGetByPCIBusId(&other, all[r].bus) != cudaSuccess) {
      cudaGetLastError();  // one that this process is not shown
      continue;
    }
    if (other == ordinal || (cudaDeviceCanAccessPeer(&can, ordinal, other) == cudaSuccess && can))
      peers |= std::uint32_t{1} << r;
  }
  return peers;
}

std::vector<Reach> gather_reach(Comm& host, const CudaDevice& device) {
  const NcclLibrary* const nccl = find_nccl();
  Place own = {.host = fnv1a(boot_id()), .nccl = nccl ? nccl->version : 0};
  check_cuda(cudaDeviceGetPCIBusId(own.bus, sizeof own.bus, device.ordinal()), "find the device");
  const std::vector<Place> places = all_of(own, host);
  const auto peers = all_of(peers_of(device.ordinal(), places, own.host), host);
  std::vector<Reach> all;
  for (std::size_t r = 0; r < places.size(); ++r) {
    const Place& p = places[r];
    all.push_back(
        {.host = p.host, .gpu = fnv1a(str(p.host, ' ', p.bus)), .peers = peers[r], .nccl = p.nccl});
  }
  return all;
}

}  // namespace

GpuComm::GpuComm(Comm& host, CudaDevice& device, bool use_windows)
    : host_(host), device_(device), use_windows_(use_windows), staged_(host, device) {}

GpuComm::~GpuComm() = default;

std::unique_ptr<DeviceComm> make_gpu_comm(Comm& host, CudaDevice& device, bool use_windows) {
  return std::make_unique<GpuComm>(host, device, use_windows);
}

Status GpuComm::connect() {
  nccl_.reset();
  way_ = Way::kHost;
  GLINT_TRY(const Way way, choose_way(gather_reach(host_, device_), use_windows_));
  if (way == Way::kWindows || way == Way::kNccl) {
    GLINT_TRY(nccl_, NcclGroup::make(*find_nccl(), host_, device_));
    if (way == Way::kWindows) {
      GLINT_TRY(windows_, nccl_->make_windows());
    }
  }
  way_ = way;
  return Ok{};
}

// Counts, and makes the call in the way of the group: call(windows, gpu), or call(group).
template <class Call>
void GpuComm::run(CommKind kind, const Tensor& x, Call&& call) {
  CommCounters* const counters = size() > 1 && way_ != Way::kHost ? host_.counters() : nullptr;
  if (counters) counters->add(kind, x);
  constexpr bool kHasKernel = std::is_invocable_v<Call, const Windows&, const Gpu&>;
  if constexpr (kHasKernel) {
    if (way_ == Way::kWindows || way_ == Way::kAlone) {
      const char* const name = CommCounters::kNames[static_cast<std::size_t>(kind)];
      return device_.run(name, [&](const Gpu& gpu) { call(windows_, gpu); });
    }
  }
  if (way_ == Way::kHost) return call(staged_);
  call(*nccl_);
}

void GpuComm::all_reduce(const Tensor& partial, const Tensor& out) {
  run(CommKind::kAllReduce, partial,
      Either{[&](const Windows& w, const Gpu& gpu) { launch_all_reduce(w, partial, out, gpu); },
             [&](auto& group) { group.all_reduce(partial, out); }});
}

void GpuComm::reduce_scatter(const Tensor& partial, const Tensor& out) {
  run(CommKind::kReduceScatter, partial,
      Either{[&](const Windows& w, const Gpu& gpu) { launch_reduce_scatter(w, partial, out, gpu); },
             [&](auto& group) { group.reduce_scatter(partial, out); }});
}

void GpuComm::all_gather(const Tensor& mine, const Tensor& all) {
  run(CommKind::kAllGather, mine,
      Either{[&](const Windows& w, const Gpu& gpu) { launch_all_gather(w, mine, all, gpu); },
             [&](auto& group) { group.all_gather(mine, all); }});
}

void GpuComm::broadcast(const Tensor& x, int root) {
  run(CommKind::kBroadcast, x,
      Either{[&](const Windows& w, const Gpu& gpu) { launch_broadcast(w, x, root, gpu); },
             [&](auto& group) { group.broadcast(x, root); }});
}

void GpuComm::exchange(const ExchangeArgs& args) {
  const auto by_group = [&](auto& group) { group.exchange(args); };
  const std::int64_t width = args.x.rank > 1 ? args.x.dim(1) : 1;
  const bool is_wide = width * size_of(args.x.dtype) > static_cast<std::int64_t>(kSliceBytes);
  if (is_wide && way_ != Way::kAlone)  // as experts that move
    return run(CommKind::kExchange, counted_rows(args), by_group);
  run(CommKind::kExchange, counted_rows(args),
      Either{[&](const Windows& w, const Gpu& gpu) { launch_exchange(w, args, gpu); }, by_group});
}

// Between two ranks only: windows are of all.
void GpuComm::send(const Tensor& x, int to) {
  run(CommKind::kSend, x, [&](auto& group) { group.send(x, to); });
}
void GpuComm::recv(const Tensor& x, int from) {
  run(CommKind::kRecv, x, [&](auto& group) { group.recv(x, from); });
}

void GpuComm::barrier() {
  device_.synchronize();
  host_.barrier();
}

void GpuComm::all_reduce_by(Shots shots, const Tensor& partial, const Tensor& out) {
  GLINT_CHECK(way_ == Way::kWindows, "shots are of windows");
  device_.run("all_reduce",
              [&](const Gpu& gpu) { launch_all_reduce(windows_, partial, out, gpu, shots); });
}

void GpuComm::all_reduce_by_nccl(const Tensor& partial, const Tensor& out) {
  GLINT_CHECK(nccl_ != nullptr, "there is no NCCL");
  nccl_->sum_by_nccl(partial, out);
}

}  // namespace glint::cuda
