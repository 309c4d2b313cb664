// GrammarCache: compiled grammars, and why others were refused, by what was asked for, up to a
// number of bytes. Not locked.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"

namespace glint {

class CompiledGrammar;

class GrammarCache {
 public:
  using Grammar = Result<std::shared_ptr<const CompiledGrammar>>;

  explicit GrammarCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if it is not known.
  const Grammar* find(const std::string& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->grammar;
  }

  // `grammar` takes `bytes`. The longest unused go first; one that is too large goes itself.
  void add(const std::string& key, Grammar grammar, std::size_t bytes) {
    if (places_.contains(key)) return;
    entries_.push_front({key, std::move(grammar), bytes + 2 * key.size()});
    places_[key] = entries_.begin();
    num_bytes_ += entries_.front().bytes;
    while (num_bytes_ > max_bytes_) {
      num_bytes_ -= entries_.back().bytes;
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  std::size_t num_bytes() const { return num_bytes_; }

 private:
  struct Entry {
    std::string key;
    Grammar grammar;
    std::size_t bytes;
  };

  const std::size_t max_bytes_;
  std::list<Entry> entries_;  // the last used first
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
  std::size_t num_bytes_ = 0;
};

}  // namespace glint
