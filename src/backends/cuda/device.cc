#include "backends/cuda/device.h"

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "backends/cuda/check_cuda.h"
#include "backends/cuda/targets.h"
#include "base/str.h"

namespace glint::cuda {
namespace {

// An eighth holds what a step sends, the pages of 512 sequences of 200,000 tokens too.
constexpr std::size_t kStaging = std::size_t{64} << 20;

// Whoever frees a GPU's memory takes turns with whoever records a graph on it: a call in the legacy
// stream ends all that is being recorded on the GPU, by any thread, with an error. A thread that
// frees while it records itself gets that error, and does not wait for itself.
std::recursive_mutex& recording_on(int ordinal) {
  static std::array<std::recursive_mutex, 64> gpus;
  return gpus[static_cast<std::size_t>(ordinal) % gpus.size()];
}

// A pool's memory goes back in the order of some stream, and Buffer remembers none: the legacy
// stream waits for the device's other streams, which are blocking ones for this reason.
void free_in_order(void* data, std::size_t) {
  cudaPointerAttributes attributes = {};
  check_cuda(cudaPointerGetAttributes(&attributes, data), "find the device of a buffer");
  check_cuda(cudaSetDevice(attributes.device), "select the device of a buffer");
  const std::lock_guard lock(recording_on(attributes.device));
  check_cuda(cudaFreeAsync(data, cudaStreamLegacy), "free a buffer");
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaDevice& device, cudaGraphExec_t graph) : device_(device), graph_(graph) {}
  ~CudaGraph() override { check_cuda(cudaGraphExecDestroy(graph_), "destroy a graph"); }
  void launch() override {
    device_.run("the graph of a step", [&](const Gpu& gpu) {
      check_cuda(cudaGraphLaunch(graph_, gpu.stream), "launch a graph");
    });
  }

 private:
  CudaDevice& device_;
  const cudaGraphExec_t graph_;
};

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, ordinal), "ask for an attribute of the device");
  return value;
}

int capability_of(int ordinal) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
         attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
}

// "CUDA device 0 (NVIDIA H200)"
std::string describe(int ordinal) {
  cudaDeviceProp properties = {};
  check_cuda(cudaGetDeviceProperties(&properties, ordinal), "read the device's properties");
  return str("CUDA device ", ordinal, " (", properties.name, ")");
}

}  // namespace

Status CudaDevice::find(int ordinal) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return not_found(
        str("no CUDA device: ", cudaGetErrorString(error), "; run with --backend cpu"));
  }
  if (ordinal < 0 || ordinal >= count) {
    return not_found(str("no CUDA device ", ordinal, ": this machine has ", count));
  }
  return check_target(describe(ordinal), capability_of(ordinal), GLINT_CUDA_TARGETS);
}

int CudaDevice::count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string CudaDevice::note(int ordinal) {
  return unmeasured(describe(ordinal), capability_of(ordinal));
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::make(int ordinal) {
  GLINT_TRY_STATUS(find(ordinal));
  // Its context takes memory, and room that another program may have for itself.
  if (const cudaError_t error = cudaSetDevice(ordinal); error != cudaSuccess) {
    cudaGetLastError();
    return unavailable(str(describe(ordinal), " cannot be used: ", cudaGetErrorString(error),
                           "; end what else runs on it, or use --backend cpu"));
  }
  return std::unique_ptr<CudaDevice>(new CudaDevice(ordinal));
}

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal), name_(str("cuda:", ordinal)) {
  select();
  gpu_.arch = arch_of(capability_of(ordinal));
  gpu_.num_sms = attribute(cudaDevAttrMultiProcessorCount, ordinal);
  check(cudaStreamCreate(&gpu_.stream), "create a stream");
  const auto create = [&](cudaEvent_t& event) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  };
  create(forked_);
  for (Branch& branch : branches_) {
    check(cudaStreamCreate(&branch.stream), "create a stream");
    create(branch.ended);
  }
  void* staging = nullptr;
  check(cudaMallocHost(&staging, kStaging), "pin memory");
  staging_ = static_cast<std::byte*>(staging);
}

CudaDevice::~CudaDevice() {
  synchronize();
  check(cudaFreeHost(staging_), "unpin memory");
  for (const Branch& branch : branches_) {
    check(cudaEventDestroy(branch.ended), "destroy an event");
    check(cudaStreamDestroy(branch.stream), "destroy a stream");
  }
  check(cudaEventDestroy(forked_), "destroy an event");
  check(cudaStreamDestroy(gpu_.stream), "destroy a stream");
}

DeviceMemory CudaDevice::memory() {
  select();
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "ask for the device's memory");
  return {.total = static_cast<std::int64_t>(total),
          .available = static_cast<std::int64_t>(available)};
}

Buffer CudaDevice::allocate(std::size_t bytes) {
  select();
  if (bytes == 0) bytes = 1;
  void* data = nullptr;
  const cudaError_t error = cudaMallocAsync(&data, bytes, gpu_.stream);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // an answer, not a failure: not to be found by the next check
    return {};
  }
  check(error, "allocate");
  return Buffer(data, bytes, free_in_order);
}

Buffer CudaDevice::allocate_pinned(std::size_t bytes) {
  select();
  void* data = nullptr;
  if (cudaMallocHost(&data, bytes ? bytes : 1) != cudaSuccess) {
    cudaGetLastError();  // an answer, not a failure
    return {};
  }
  return Buffer(data, bytes, [](void* pinned, std::size_t) {
    check_cuda(cudaFreeHost(pinned), "unpin memory");
  });
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  select();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu_.stream), "copy");
}

// From pageable memory CUDA promises neither to have read `host` on return nor not to wait for the
// stream, so small copies (what a step sends) are staged: the host runs ahead of the device.
void CudaDevice::copy_in(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  select();
  if (bytes <= kStaging / 8) {
    // In two halves: one is filled again when the stream has read it, which was long ago.
    const std::size_t half = staged_ / (kStaging / 2);
    if (staged_ % (kStaging / 2) + bytes >= kStaging / 2) {
      staged_half_[half] = record();
      staged_ = (1 - half) * (kStaging / 2);
      wait(staged_half_[1 - half]);
    }
    std::memcpy(staging_ + staged_, host, bytes);
    check(cudaMemcpyAsync(device, staging_ + staged_, bytes, cudaMemcpyHostToDevice, gpu_.stream),
          "copy in");
    staged_ += bytes;
  } else {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, gpu_.stream), "copy in");
    synchronize();
  }
}

void CudaDevice::copy_out(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return;
  select();
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, gpu_.stream), "copy out");
  synchronize();
}

Event CudaDevice::record() {
  select();
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "create an event");
  check(cudaEventRecord(event, gpu_.stream), "record an event");
  return Event({event, [](void* handle) {
                  check_cuda(cudaEventDestroy(static_cast<cudaEvent_t>(handle)),
                             "destroy an event");
                }});
}

void CudaDevice::wait(const Event& event) {
  if (event.handle()) {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event.handle())), "wait for an event");
  }
}

double CudaDevice::seconds_between(const Event& from, const Event& to) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(from.handle()),
                             static_cast<cudaEvent_t>(to.handle())),
        "measure time");
  return 1e-3 * static_cast<double>(ms);
}

void CudaDevice::fork(std::int64_t rows) {
  constexpr std::int64_t kManyRows = 512;
  has_branches_ = recording_ || rows >= kManyRows;
  if (has_branches_) check(cudaEventRecord(forked_, gpu_.stream), "fork");
}

void CudaDevice::begin_branch() {
  if (!has_branches_) return;
  GLINT_CHECK(num_branches_ < kMostBranches, "a branch too many");
  cudaStream_t& other = branches_[num_branches_].stream;
  check(cudaStreamWaitEvent(other, forked_), "begin a branch");
  std::swap(gpu_.stream, other);
  gpu_.overlaps = false;
}

void CudaDevice::end_branch() {
  if (!has_branches_) return;
  Branch& branch = branches_[num_branches_++];
  check(cudaEventRecord(branch.ended, gpu_.stream), "end a branch");
  std::swap(gpu_.stream, branch.stream);
  gpu_.overlaps = true;
}

void CudaDevice::join() {
  if (!has_branches_) return;
  for (; num_branches_ > 0; --num_branches_) {
    check(cudaStreamWaitEvent(gpu_.stream, branches_[num_branches_ - 1].ended), "join a branch");
  }
  gpu_.overlaps = false;
}

std::unique_ptr<Graph> CudaDevice::capture(const std::function<void()>& run) {
  select();
  cudaGraph_t recorded = nullptr;
  {
    const std::lock_guard lock(recording_on(ordinal_));
    check(cudaStreamBeginCapture(gpu_.stream, cudaStreamCaptureModeThreadLocal), "begin a capture");
    recording_ = true;
    run();
    recording_ = false;
    check(cudaStreamEndCapture(gpu_.stream, &recorded), "end a capture");
  }
  cudaGraphExec_t graph = nullptr;
  check(cudaGraphInstantiate(&graph, recorded, 0), "instantiate a graph");
  check(cudaGraphDestroy(recorded), "destroy a graph");
  auto captured = std::make_unique<CudaGraph>(*this, graph);
  captured->launch();
  return captured;
}

void CudaDevice::synchronize() {
  select();
  check(cudaStreamSynchronize(gpu_.stream), "synchronize");
}

bool CudaDevice::is_idle() {
  select();
  const cudaError_t state = cudaStreamQuery(gpu_.stream);
  if (state != cudaErrorNotReady) check(state, "query");
  return state == cudaSuccess;
}

void CudaDevice::check(cudaError_t error, const char* call) const {
  if (error == cudaSuccess) return;
  const std::string doing = work();
  check_cuda(error,
             str(name_, ": ", call, " after ", last_op_, doing.empty() ? "" : " in ", doing));
}

}  // namespace glint::cuda
