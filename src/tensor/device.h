// Device: where tensors live. Memory, copies, and the order of asynchronous work; nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace glint {

// Owns device memory; freed by the device that made it. Move-only.
class Buffer {
 public:
  using Free = void (*)(void* data, std::size_t bytes);

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Free free) : data_(data, Deleter(bytes, free)) {}

  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  std::size_t bytes() const { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Deleter {
    Deleter() {}  // not "= {}" members: unique_ptr asks for it while Buffer is incomplete
    Deleter(std::size_t bytes, Free free) : bytes(bytes), free(free) {}
    void operator()(void* data) const { free(data, bytes); }

    std::size_t bytes = 0;
    Free free = nullptr;
  };
  std::unique_ptr<void, Deleter> data_;
};

// Bytes: of the device, or of the limits that this process is held to; and not in use now.
struct DeviceMemory {
  std::int64_t total = 0, available = 0;
};

// A point in a device's order of work; cheap to copy. Empty: it has passed.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  void* handle() const { return handle_.get(); }  // the device's own

 private:
  std::shared_ptr<void> handle_;
};

// Ops and copies that a device repeats at once, on the memory that they were recorded with.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const char* name() const = 0;  // "cpu", "cuda:0"
  // True if host code may dereference this device's pointers, so that mapped files are used where
  // they are.
  virtual bool is_host() const = 0;
  virtual DeviceMemory memory() = 0;
  // Uninitialised, aligned to 256 bytes. An empty Buffer if there is not enough memory.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Bytes from one row to the next, at least `bytes`, where rows are read one beside the other.
  virtual std::int64_t row_pitch(std::int64_t bytes) const { return bytes; }
  // Memory of the host, uninitialised, which copy() reads and writes without the host's waiting.
  virtual Buffer allocate_pinned(std::size_t bytes) = 0;

  // Between device memory and device or pinned memory, ordered with the ops; may return before it
  // has run. Pinned memory is in use until an event recorded afterwards has passed.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // From any host memory, ordered with the ops; `host` may be reused when the call returns.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  // To any host memory. Waits for the ops before it.
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;

  // The end of what was asked for so far.
  virtual Event record() = 0;
  virtual void wait(const Event& event) = 0;
  // Seconds from one event to a later one, both passed; 0 where the device keeps no time.
  virtual double seconds_between(const Event&, const Event&) { return 0; }
  virtual void synchronize() = 0;  // waits for everything

  // Runs `run`, and returns what repeats the ops and copy()s that it asked for; null if this device
  // repeats nothing. `run` neither allocates nor waits.
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& run) = 0;

  // For messages of failures: the work that the device is asked for, as `work` tells it whenever it
  // is asked, on the thread that uses the device.
  void set_work(std::function<std::string()> work) { work_ = std::move(work); }
  std::string work() const { return work_ ? work_() : std::string(); }

 private:
  std::function<std::string()> work_ = {};
};

// The host's memory, which comes zeroed: huge pages where the kernel gives them, copies by memcpy,
// nothing later than its call.
std::unique_ptr<Device> make_host_device();

}  // namespace glint
