// GrammarCache: compiled grammars by what was asked for, up to a number of bytes. Whoever asks for
// the same while it is being compiled waits for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace glint {

class CompiledGrammar;

class GrammarCache {
 public:
  using Grammar = Result<std::shared_ptr<const CompiledGrammar>>;
  struct Sized {
    Grammar grammar;
    std::size_t bytes;
  };

  explicit GrammarCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // What `make` made for this key, now or before. Errors are not kept.
  Grammar get(const std::string& key, const std::function<Sized()>& make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = entries_.find(key);
      if (found == entries_.end()) break;
      if (found->second.grammar) {
        order_.splice(order_.begin(), order_, found->second.place);
        return found->second.grammar;
      }
      made_.wait(lock);
    }
    Entry& entry = entries_[key];  // a place that says: it is being made
    order_.push_front(key);
    entry.place = order_.begin();
    lock.unlock();
    Sized made = make();
    lock.lock();
    made_.notify_all();
    const auto at = entries_.find(key);
    if (!made.grammar.ok()) {
      erase(at);
      return made.grammar;
    }
    at->second.grammar = made.grammar.value();
    at->second.bytes = made.bytes + key.size();
    num_bytes_ += at->second.bytes;
    evict();
    return made.grammar;
  }

  std::size_t num_bytes() const {
    const std::lock_guard lock(mutex_);
    return num_bytes_;
  }

 private:
  struct Entry {
    std::shared_ptr<const CompiledGrammar> grammar;  // null: being made
    std::size_t bytes = 0;
    std::list<std::string>::iterator place;  // in order_
  };
  using Entries = std::unordered_map<std::string, Entry>;

  void erase(Entries::iterator entry) {
    num_bytes_ -= entry->second.bytes;
    order_.erase(entry->second.place);
    entries_.erase(entry);
  }

  // The longest unused go first; those being made stay.
  void evict() {
    for (auto key = order_.end(); num_bytes_ > max_bytes_ && key != order_.begin();) {
      const auto entry = entries_.find(*--key);
      if (!entry->second.grammar) continue;
      key = std::next(key);
      erase(entry);
    }
  }

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  Entries entries_;
  std::list<std::string> order_;  // the last used first
  std::size_t num_bytes_ = 0;
};

}  // namespace glint
