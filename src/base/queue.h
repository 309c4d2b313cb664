// Queue: values from any number of threads to one or more others, in order; and Guarded: a value
// that threads replace and read whole. Threads of glint share data through these two.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace glint {

// How many values wait is bounded by who pushes.
template <class T>
class Queue {
 public:
  // False, with the value dropped, once the queue is closed.
  bool push(T value) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      values_.push_back(std::move(value));
    }
    changed_.notify_one();
    return true;
  }

  // Waits for a value. Nothing: the queue is closed, and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !values_.empty(); });
    return take(lock);
  }

  // pop(), but gives up after `seconds`.
  std::optional<T> pop_for(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return closed_ || !values_.empty(); });
    return take(lock);
  }

  // Waits for a value and takes all that are there. Empty: the queue is closed.
  std::deque<T> pop_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !values_.empty(); });
    return std::exchange(values_, {});
  }

  // Wakes all that wait; what is in the queue can still be taken.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  std::optional<T> take(std::unique_lock<std::mutex>&) {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    return value;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> values_;
  bool closed_ = false;
};

template <class T>
class Guarded {
 public:
  T load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  void store(T value) {
    const std::lock_guard lock(mutex_);
    std::swap(value_, value);  // the old one is destroyed after the lock
  }

 private:
  mutable std::mutex mutex_;
  T value_ = {};
};

}  // namespace glint
