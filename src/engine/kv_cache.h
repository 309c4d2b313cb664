// KvCache: which pages of the paged KV cache hold which tokens. Host bookkeeping only.
//
// The bytes live on the devices (model/kv_store.h); this file knows page numbers. That is why it
// can be tested with a million random requests and no model. A page holds page_size consecutive
// positions of one sequence, for all layers at once. Full pages are immutable and are shared by
// every sequence with the same prefix; only a sequence's last page is ever written.
//
// Not thread-safe: owned by the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/token_list.h"

namespace glint {

class KvCache;

// The pages of one sequence, in position order. Move-only: destroying it gives the pages back.
class PageTable {
 public:
  PageTable() = default;
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable();

  std::span<const PageId> pages() const { return pages_; }

 private:
  friend class KvCache;
  KvCache* cache_ = nullptr;  // null while empty
  std::vector<PageId> pages_;
  int num_published_ = 0;          // how many of its first pages are findable
  std::uint64_t last_prefix_ = 0;  // identity of the prefix that these hold
  std::uint64_t epoch_ = 0;        // flushes before it got its first page
};

struct KvCacheConfig {
  int num_pages = 0;
  int page_size = 64;  // tokens; the one the attention kernels are compiled for
  bool share_prefixes = true;
  // With a draft layer, the last row of a page was computed from the token after the page: then a
  // page is adopted only where that token is the same.
  bool match_next_token = false;
};

class KvCache {
 public:
  explicit KvCache(const KvCacheConfig& config);
  ~KvCache();  // every PageTable must be gone

  // Gives `table`, which must be empty, the cached pages of the longest known prefix of `tokens`.
  // Returns how many tokens those pages hold: a multiple of page_size, and always < tokens.size(),
  // so that at least one token is left to run and produce logits. Pages are shared only among
  // requests with the same `salt`; a hash hit is compared token by token, never trusted.
  int adopt_prefix(PageTable& table, const TokenList& tokens, std::uint64_t salt);
  // How many tokens adopt_prefix would find, and how many of their pages nobody holds, which are
  // free until then.
  struct Cached {
    int tokens = 0, free_pages = 0;
  };
  Cached cached(const TokenList& tokens, std::uint64_t salt) const;

  // Makes room for positions [0, num_tokens). All or nothing: on false, `table` is unchanged and
  // the caller must wait or preempt. Evicts unused cached prefixes, least recently used first.
  [[nodiscard]] bool grow(PageTable& table, int num_tokens);

  // Makes the full pages of tokens[0, num_computed) findable by adopt_prefix. Call it only after
  // the step that computed them has been committed. `tokens` may go on after num_computed. Where
  // another sequence published the same prefix first, `table` takes that page and gives its own
  // back.
  void publish(PageTable& table, const TokenList& tokens, int num_computed, std::uint64_t salt);

  // Forgets every cached prefix; pages in use stay with their sequences, and are never published.
  void flush();

  // How many of `num_tokens` equal tokens two sequences can share: whole pages, or none.
  int reusable_tokens(int num_tokens) const {
    return config_.share_prefixes ? num_tokens - num_tokens % config_.page_size : 0;
  }

  const KvCacheConfig& config() const { return config_; }
  int num_pages() const { return config_.num_pages; }
  int page_size() const { return config_.page_size; }
  int num_free_pages() const;  // unused, or holding only evictable prefixes
  int num_used_pages() const;  // held by sequences
  int num_exclusive_pages(const PageTable& table) const;  // that nobody else uses

  // Recomputes every count from scratch; aborts on a mismatch. O(pages): for tests, idle time.
  // `tables` are all that exist.
  void check_invariants(std::span<const PageTable* const> tables) const;

 private:
  friend class PageTable;
  void release(std::span<const PageId> pages);
  std::vector<PageId> find_prefix(const TokenList& tokens, std::uint64_t salt) const;

  KvCacheConfig config_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace glint
