// Device: where tensors live. Memory, copies and the end of asynchronous work; nothing else.
#pragma once

#include <cstddef>
#include <memory>

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

class Device {
 public:
  virtual ~Device() = default;

  virtual const char* name() const = 0;  // "cpu", "cuda:0"
  // True if host code may dereference this device's pointers, so that mapped files are used where
  // they are.
  virtual bool is_host() const = 0;
  // Zeroed, aligned to 256 bytes. An empty Buffer if there is not enough memory.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Ordered with the ops; `host` may be reused when the call returns.
  virtual void copy_in(void* device, const void* host, std::size_t bytes) = 0;
  // Waits for the ops before it.
  virtual void copy_out(void* host, const void* device, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
};

// The host's memory: huge pages where the kernel gives them, copies by memcpy.
std::unique_ptr<Device> make_host_device();

}  // namespace glint
