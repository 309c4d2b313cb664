// WeightVersion: the name of the weights that answer, which a trainer gives them.
#pragma once

#include <mutex>
#include <string>

namespace glint {

// From any thread.
class WeightVersion {
 public:
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }
  void set(std::string name) {
    const std::lock_guard lock(mutex_);
    name_ = std::move(name);
  }

 private:
  mutable std::mutex mutex_;
  std::string name_ = "default";  // those that the server began with
};

}  // namespace glint
