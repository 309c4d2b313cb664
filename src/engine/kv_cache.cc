// The cached prefixes form a tree: a published page is a node, its parent the page before it.
//
// A node is found by its parent's identity and its own tokens. Identities are serial numbers that
// are never used twice, so "same parent, same tokens" means "same prefix" exactly, however long,
// and a lookup costs one page of tokens. Sequences hold whole paths from the root and give them
// back deepest page first; so the least recently used page is always a leaf, and eviction never
// cuts a path.
#include "engine/kv_cache.h"

#include <algorithm>
#include <random>
#include <unordered_set>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr PageId kNoPage = -1;

// A page's key: the tokens of its positions, and with match_next_token the one after.
struct Node {
  std::uint64_t parent = 0;  // serial of the page before; 0: the first page
  std::uint64_t salt = 0;
  std::span<const TokenId> tokens = {};

  bool operator==(const Node& other) const {
    return parent == other.parent && salt == other.salt &&
           std::equal(tokens.begin(), tokens.end(), other.tokens.begin(), other.tokens.end());
  }
};

struct Page {
  int num_users = 0;         // sequences that hold it
  std::uint64_t serial = 0;  // identity of the prefix that ends here; 0: not published
  std::uint64_t parent = 0, salt = 0;
  std::vector<TokenId> tokens;
  PageId older = kNoPage, newer = kNoPage;  // neighbours in the order of eviction, if in it

  Node node() const { return {.parent = parent, .salt = salt, .tokens = tokens}; }
};

struct HashNode {
  // Drawn anew for each cache: clients choose tokens and must not be able to choose collisions.
  std::uint64_t seed = 0;

  std::uint64_t operator()(const Node& node) const {
    std::uint64_t hash = seed ^ node.parent * 0x9E3779B97F4A7C15u;
    const auto mix = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0xD6E8FEB86659FD93u;
      hash ^= hash >> 32;
    };
    mix(node.salt);
    for (const TokenId token : node.tokens) mix(static_cast<std::uint64_t>(token));
    return hash;
  }
};

}  // namespace

struct KvCache::State {
  explicit State(int num_pages)
      : pages(static_cast<std::size_t>(num_pages)),
        index(16, Hash{HashNode{std::random_device{}()}, &pages}, Equal{&pages}) {
    for (int page = num_pages - 1; page >= 0; --page) free.push_back(page);
  }

  Page& at(PageId page) { return pages[static_cast<std::size_t>(page)]; }

  // The set of published pages hashes and compares what the pages hold.
  struct Hash {
    using is_transparent = void;
    HashNode hash;
    const std::vector<Page>* pages;
    std::size_t operator()(const Node& node) const { return hash(node); }
    std::size_t operator()(PageId page) const {
      return hash((*pages)[static_cast<std::size_t>(page)].node());
    }
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<Page>* pages;
    Node node(PageId page) const { return (*pages)[static_cast<std::size_t>(page)].node(); }
    bool operator()(PageId a, PageId b) const { return a == b; }
    bool operator()(const Node& a, PageId b) const { return a == node(b); }
    bool operator()(PageId a, const Node& b) const { return node(a) == b; }
  };

  PageId find(const Node& node) const {
    const auto found = index.find(node);
    return found == index.end() ? kNoPage : *found;
  }

  void push_evictable(PageId page) {
    at(page).older = newest;
    (newest == kNoPage ? oldest : at(newest).newer) = page;
    newest = page;
    ++num_evictable;
  }

  void remove_evictable(PageId page) {
    Page& p = at(page);
    (p.older == kNoPage ? oldest : at(p.older).newer) = p.newer;
    (p.newer == kNoPage ? newest : at(p.newer).older) = p.older;
    p.older = p.newer = kNoPage;
    --num_evictable;
  }

  void unpublish(PageId page) {
    index.erase(page);
    at(page).serial = 0;
    at(page).tokens.clear();
  }

  void add_user(PageId page) {
    Page& p = at(page);
    if (p.num_users == 0 && p.serial != 0) remove_evictable(page);
    ++p.num_users;
    ++num_uses;
  }

  void remove_user(PageId page) {
    Page& p = at(page);
    GLINT_CHECK(p.num_users > 0, str("page ", page, " was given back twice"));
    --num_uses;
    if (--p.num_users > 0) return;
    if (p.serial != 0) {
      push_evictable(page);
    } else {
      free.push_back(page);
    }
  }

  PageId take_free() {
    if (free.empty()) {
      const PageId page = oldest;
      remove_evictable(page);
      unpublish(page);
      free.push_back(page);
    }
    const PageId page = free.back();
    free.pop_back();
    return page;
  }

  std::vector<Page> pages;
  std::vector<PageId> free;
  std::unordered_set<PageId, Hash, Equal> index;  // the published pages
  PageId oldest = kNoPage, newest = kNoPage;      // published pages that nobody uses
  int num_evictable = 0;
  std::int64_t num_uses = 0;  // the sizes of all tables
  std::uint64_t next_serial = 1;
  std::uint64_t epoch = 0;  // flushes so far
};

PageTable::PageTable(PageTable&& other) noexcept { *this = std::move(other); }

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->release(pages_);
  cache_ = std::exchange(other.cache_, nullptr);
  pages_ = std::exchange(other.pages_, {});
  num_published_ = std::exchange(other.num_published_, 0);
  last_prefix_ = std::exchange(other.last_prefix_, 0);
  epoch_ = std::exchange(other.epoch_, 0);
  return *this;
}

PageTable::~PageTable() {
  if (cache_ != nullptr) cache_->release(pages_);
}

KvCache::KvCache(const KvCacheConfig& config)
    : config_(config), state_(std::make_unique<State>(config.num_pages)) {
  GLINT_CHECK(config.page_size > 0, str("page size ", config.page_size));
}

KvCache::~KvCache() { GLINT_CHECK(state_->num_uses == 0, "a page table outlives its cache"); }

// The pages of the longest known prefix that leaves a token to run.
std::vector<PageId> KvCache::find_prefix(const TokenList& tokens, std::uint64_t salt) const {
  const std::size_t page_size = static_cast<std::size_t>(config_.page_size);
  const std::size_t lookahead = config_.match_next_token ? 1 : 0;
  std::vector<PageId> pages;
  std::uint64_t prefix = 0;
  std::vector<TokenId> buffer;
  std::size_t end = page_size;  // < tokens.size() covers the lookahead, too
  for (; config_.share_prefixes && end < tokens.size(); end += page_size) {
    const PageId page =
        state_->find({.parent = prefix,
                      .salt = salt,
                      .tokens = tokens.read(end - page_size, page_size + lookahead, buffer)});
    if (page == kNoPage) break;
    pages.push_back(page);
    prefix = state_->at(page).serial;
  }
  return pages;
}

int KvCache::adopt_prefix(PageTable& table, const TokenList& tokens, std::uint64_t salt) {
  GLINT_CHECK(table.pages_.empty(), "a prefix is adopted by an empty table");
  table.pages_ = find_prefix(tokens, salt);
  if (table.pages_.empty()) return 0;
  for (const PageId page : table.pages_) state_->add_user(page);
  table.cache_ = this;
  table.num_published_ = static_cast<int>(table.pages_.size());
  table.last_prefix_ = state_->at(table.pages_.back()).serial;
  table.epoch_ = state_->epoch;
  return table.num_published_ * config_.page_size;
}

KvCache::Cached KvCache::cached(const TokenList& tokens, std::uint64_t salt) const {
  const std::vector<PageId> pages = find_prefix(tokens, salt);
  const auto free =
      std::ranges::count_if(pages, [this](PageId page) { return state_->at(page).num_users == 0; });
  return {static_cast<int>(pages.size()) * config_.page_size, static_cast<int>(free)};
}

bool KvCache::grow(PageTable& table, int num_tokens) {
  const int missing =
      ceil_div(num_tokens, config_.page_size) - static_cast<int>(table.pages_.size());
  if (missing > num_free_pages()) return false;
  if (missing > 0 && table.cache_ == nullptr) table.cache_ = this, table.epoch_ = state_->epoch;
  for (int i = 0; i < missing; ++i) {
    const PageId page = state_->take_free();
    state_->add_user(page);
    table.pages_.push_back(page);
  }
  return true;
}

void KvCache::publish(PageTable& table, const TokenList& tokens, int num_computed,
                      std::uint64_t salt) {
  // After a flush what the table holds may be stale, and its path leads nowhere.
  if (!config_.share_prefixes || table.cache_ == nullptr || table.epoch_ != state_->epoch) return;
  const std::size_t page_size = static_cast<std::size_t>(config_.page_size);
  const std::size_t lookahead = config_.match_next_token ? 1 : 0;
  std::vector<TokenId> buffer;
  for (;;) {
    const std::size_t begin = static_cast<std::size_t>(table.num_published_) * page_size;
    const std::size_t end = begin + page_size;
    if (end > static_cast<std::size_t>(num_computed) || end + lookahead > tokens.size()) return;
    const Node node = {.parent = table.last_prefix_,
                       .salt = salt,
                       .tokens = tokens.read(begin, page_size + lookahead, buffer)};
    PageId& own = table.pages_[static_cast<std::size_t>(table.num_published_)];
    if (const PageId other = state_->find(node); other != kNoPage) {
      state_->add_user(other);
      state_->remove_user(own);
      own = other;
    } else {
      Page& page = state_->at(own);
      page.serial = state_->next_serial++;
      page.parent = node.parent;
      page.salt = salt;
      page.tokens.assign(node.tokens.begin(), node.tokens.end());
      state_->index.insert(own);
    }
    table.last_prefix_ = state_->at(own).serial;
    ++table.num_published_;
  }
}

void KvCache::flush() {
  ++state_->epoch;
  state_->index.clear();
  for (PageId page = 0; page < config_.num_pages; ++page) {
    Page& p = state_->at(page);
    if (p.serial == 0) continue;
    if (p.num_users == 0) {
      state_->remove_evictable(page);
      state_->free.push_back(page);
    }
    p.serial = 0;
    p.tokens.clear();
  }
}

void KvCache::release(std::span<const PageId> pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) state_->remove_user(*page);
}

int KvCache::num_free_pages() const {
  return static_cast<int>(state_->free.size()) + state_->num_evictable;
}
int KvCache::num_used_pages() const { return config_.num_pages - num_free_pages(); }

int KvCache::num_exclusive_pages(const PageTable& table) const {
  return static_cast<int>(
      std::count_if(table.pages_.begin(), table.pages_.end(),
                    [this](PageId page) { return state_->at(page).num_users == 1; }));
}

void KvCache::check_invariants(std::span<const PageTable* const> tables) const {
  State& s = *state_;
  const std::size_t n = s.pages.size();
  std::vector<int> users(n, 0);
  std::int64_t uses = 0;
  for (const PageTable* table : tables) {
    GLINT_CHECK(table->cache_ == nullptr || table->cache_ == this, "a table of another cache");
    for (const PageId page : table->pages_) ++users[static_cast<std::size_t>(page)], ++uses;
  }
  GLINT_CHECK(uses == s.num_uses, str(s.num_uses, " uses of pages, not ", uses));

  std::vector<int> listed(n, 0);
  for (const PageId page : s.free) {
    GLINT_CHECK(s.at(page).num_users == 0 && s.at(page).serial == 0, str("page ", page, " free"));
    ++listed[static_cast<std::size_t>(page)];
  }
  // Serial number -> place in the order of eviction; the greatest of all while in use.
  std::vector<std::pair<std::uint64_t, int>> age;
  int evictable = 0;
  for (PageId page = s.oldest; page != kNoPage; page = s.at(page).newer) {
    GLINT_CHECK(s.at(page).num_users == 0 && s.at(page).serial != 0, str("page ", page, " cached"));
    ++listed[static_cast<std::size_t>(page)];
    age.emplace_back(s.at(page).serial, evictable++);
  }
  GLINT_CHECK(evictable == s.num_evictable, str(s.num_evictable, " evictable, not ", evictable));

  int published = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Page& page = s.pages[i];
    GLINT_CHECK(page.num_users == users[i],
                str("page ", i, ": ", page.num_users, " users, not ", users[i]));
    GLINT_CHECK(listed[i] == (users[i] == 0 ? 1 : 0), str("page ", i, " is lost or listed twice"));
    published += page.serial != 0;
    if (page.serial == 0) continue;
    if (users[i] > 0) age.emplace_back(page.serial, static_cast<int>(n));
    GLINT_CHECK(s.find(page.node()) == static_cast<PageId>(i), str("page ", i, " is not found"));
  }
  GLINT_CHECK(published == static_cast<int>(s.index.size()), "the index holds unpublished pages");

  std::sort(age.begin(), age.end());
  const auto age_of = [&age](std::uint64_t serial) {
    const auto found = std::lower_bound(age.begin(), age.end(), std::pair(serial, -1));
    return found != age.end() && found->first == serial ? found->second : -1;
  };
  for (const Page& page : s.pages) {
    if (page.serial == 0 || page.parent == 0) continue;
    GLINT_CHECK(age_of(page.parent) >= age_of(page.serial), "a page would outlive its parent");
  }
}

}  // namespace glint
