#include "text/tokenizer/tokenizer_bpe.h"

#include <algorithm>
#include <bit>

#include "base/str.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_bytes.h"
#include "text/tokenizer/tokenizer_fields.h"

namespace glint {
namespace {

// Below this many symbols a scan for the best pair beats a heap.
constexpr std::size_t kShortWord = 48;

// Words that one call remembers: of up to this many bytes, this many of them (their table fits the
// second level cache).
constexpr std::size_t kMaxRemembered = 32;
constexpr std::size_t kMaxWords = 1 << 14;

std::uint64_t pair_of(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Result<Bpe> Bpe::parse(const Json& model) {
  Bpe bpe;
  GLINT_TRY_STATUS(bpe.parse_options(model));
  GLINT_TRY_STATUS(bpe.parse_vocab(model.find("vocab")->as_object()));
  GLINT_TRY_STATUS(bpe.parse_merges(model.find("merges")->as_array()));
  bpe.index_words();
  return bpe;
}

Status Bpe::parse_options(const Json& model) {
  Fields fields(model, "model");
  const std::string type = fields.text_or("type", "BPE");
  if (type != "BPE") return fields.unknown_type(type, "BPE");
  fields.object("vocab");
  fields.list("merges");
  fields.skip({"unk_token", "fuse_unk", "byte_fallback"});  // nothing is unknown
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!fields.text_or(affix, "").empty())
      fields.fail(str("\"", affix, "\" is set; only byte-level BPE is supported"));
  }
  ignore_merges_ = fields.flag_or("ignore_merges", false);
  const Json& dropout = fields.value_or_null("dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.as_double() == 0)) {
    fields.fail("\"dropout\" is " + dump_json(dropout) +
                "; only null is supported, tokens are not random");
  }
  return fields.done();
}

Status Bpe::parse_vocab(const Json::Object& vocab) {
  std::size_t bytes = 0;
  TokenId max_id = -1;
  for (const auto& [text, id] : vocab) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > kMaxId) {
      return invalid(str("model.vocab: the id of ", quoted(text), " is ",
                         id.is_number() ? dump_json(id) : id.kind(), " where an integer from 0 to ",
                         kMaxId, " belongs"));
    }
    bytes += text.size();
    max_id = std::max(max_id, static_cast<TokenId>(id.as_int()));
  }
  vocab_.reserve(vocab.size(), bytes);
  texts_.resize(static_cast<std::size_t>(max_id + 1));
  for (const auto& [text, json_id] : vocab) {
    const auto id = static_cast<TokenId>(json_id.as_int());
    std::optional<std::string>& slot = texts_[static_cast<std::size_t>(id)];
    if (slot) {
      return invalid(str("model.vocab: the id ", id, " belongs to both ", quoted(*slot), " and ",
                         quoted(text)));
    }
    slot = text;
    vocab_.insert(text, id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(letter, letter_of_byte(static_cast<unsigned char>(byte)));
    byte_ids_[byte] = find(letter);
    if (byte_ids_[byte] < 0) {
      return unsupported(str("model.vocab: the byte ", byte, " has no token (", quoted(letter),
                             "); only byte-level BPE is supported"));
    }
  }
  return Ok{};
}

Status Bpe::parse_merges(const Json::Array& merges) {
  const std::size_t slots = std::bit_ceil(2 * merges.size() + 2);
  merges_.resize(slots);
  merges_shift_ = 64 - std::countr_zero(slots);
  std::string text;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    // The first line of a merges.txt, which some files keep.
    if (merges[rank].is_string() && merges[rank].as_string().rfind("#version", 0) == 0) continue;
    Status status = parse_merge(merges[rank], static_cast<std::uint32_t>(rank), text);
    if (!status.ok()) return std::move(status).take_error().in(str("model.merges[", rank, "]"));
  }
  return Ok{};
}

Status Bpe::parse_merge(const Json& merge, std::uint32_t rank, std::string& text) {
  std::string_view left, right;
  if (merge.is_string()) {  // "a b"
    const std::string& both = merge.as_string();
    const std::size_t blank = both.find(' ');
    if (blank == both.npos || both.find(' ', blank + 1) != both.npos) {
      return invalid(str("expected two tokens with a blank between them, found ", quoted(both)));
    }
    left = std::string_view(both).substr(0, blank);
    right = std::string_view(both).substr(blank + 1);
  } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
             merge.as_array()[1].is_string()) {
    left = merge.as_array()[0].as_string();
    right = merge.as_array()[1].as_string();
  } else {
    return invalid("expected a pair of texts");
  }
  const TokenId left_id = find(left), right_id = find(right);
  if (left_id < 0) return invalid(str("the token ", quoted(left), " is not in the vocabulary"));
  if (right_id < 0) return invalid(str("the token ", quoted(right), " is not in the vocabulary"));
  text.assign(left).append(right);
  const TokenId merged = find(text);
  if (merged < 0) return invalid(str("the token ", quoted(text), " is not in the vocabulary"));
  insert_merge(pair_of(left_id, right_id), rank, merged);
  return Ok{};
}

void Bpe::insert_merge(std::uint64_t pair, std::uint32_t rank, TokenId merged) {
  std::size_t at = (pair * 0x9E3779B97F4A7C15) >> merges_shift_;
  while (merges_[at].pair != kNoPair && merges_[at].pair != pair)
    at = (at + 1) & (merges_.size() - 1);
  merges_[at] = {pair, rank, merged};  // a repeated pair counts where it comes last
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = (pair * 0x9E3779B97F4A7C15) >> merges_shift_;;
       at = (at + 1) & (merges_.size() - 1)) {
    if (merges_[at].pair == pair) return &merges_[at];
    if (merges_[at].pair == kNoPair) return nullptr;
  }
}

void Bpe::index_words() {
  whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(texts_.size());
  words_.reserve(texts_.size(), 0);
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    if (!texts_[id]) continue;
    const std::optional<std::string> word = letters_to_bytes(*texts_[id]);
    if (word && !word->empty()) words_.insert(*word, static_cast<TokenId>(id));
    whole_[id] = ignore_merges_ ? kWhole : kUnknown;
  }
}

bool Bpe::is_whole(TokenId id, std::string_view word, Scratch& scratch) const {
  std::atomic<std::uint8_t>& state = whole_[static_cast<std::size_t>(id)];
  std::uint8_t known = state.load(std::memory_order_relaxed);
  if (known == kUnknown) {  // threads that ask at once find the same
    merge_word(word, scratch);
    known = scratch.ids.size() == 1 && scratch.ids[0] == id ? kWhole : kParts;
    state.store(known, std::memory_order_relaxed);
  }
  return known == kWhole;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (const TokenId id = words_.find(word); id >= 0 && is_whole(id, word, scratch)) {
    out.push_back(id);
    return;
  }
  const bool remember = word.size() <= kMaxRemembered;
  if (const TokenId at = remember ? scratch.words.find(word) : -1; at >= 0) {
    const auto [begin, count] = scratch.spans[static_cast<std::size_t>(at)];
    out.insert(out.end(), scratch.encoded.begin() + begin, scratch.encoded.begin() + begin + count);
    return;
  }
  merge_word(word, scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  if (remember && scratch.spans.size() < kMaxWords) {
    scratch.words.insert(word, static_cast<TokenId>(scratch.spans.size()));
    scratch.spans.emplace_back(scratch.encoded.size(), scratch.ids.size());
    scratch.encoded.insert(scratch.encoded.end(), scratch.ids.begin(), scratch.ids.end());
  }
}

void Bpe::merge_word(std::string_view word, Scratch& scratch) const {
  scratch.ids.clear();
  for (const char c : word) scratch.ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  if (scratch.ids.size() <= kShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
}

void Bpe::merge_short(Scratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  if (ids.size() < 2) return;
  std::vector<std::uint32_t>& ranks = scratch.ranks;  // of the pair (i, i + 1)
  const auto rank_of = [&](std::size_t i) {
    const Merge* merge = find_merge(ids[i], ids[i + 1]);
    return merge ? merge->rank : kNoRank;
  };
  ranks.resize(ids.size() - 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank_of(i);
  while (!ranks.empty()) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoRank) return;
    const auto i = static_cast<std::size_t>(best - ranks.begin());
    ids[i] = find_merge(ids[i], ids[i + 1])->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks.erase(best);
    if (i > 0) ranks[i - 1] = rank_of(i - 1);
    if (i < ranks.size()) ranks[i] = rank_of(i);
  }
}

// Merges with a heap of candidates: O(n log n), for words as long as an attacker likes.
void Bpe::merge_long(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  const auto count = static_cast<std::int32_t>(scratch.ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols.push_back(
        {scratch.ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto symbol = [&](std::int32_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto add = [&](std::int32_t left, std::int32_t right) {
    const Merge* merge = find_merge(symbol(left).id, symbol(right).id);
    if (merge) heap.push_back({merge->rank, left, merge->merged});
    return merge != nullptr;
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) add(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbol(top.position);
    if (left.next < 0) continue;
    const Symbol right = symbol(left.next);
    const Merge* merge = find_merge(left.id, right.id);
    if (!merge || merge->merged != top.merged) continue;  // the pair changed since
    symbol(left.next).next = -2;
    left.id = top.merged;
    left.next = right.next;
    if (right.next >= 0) symbol(right.next).prev = top.position;
    if (left.prev >= 0 && add(left.prev, top.position))
      std::push_heap(heap.begin(), heap.end(), later);
    if (left.next >= 0 && add(top.position, left.next))
      std::push_heap(heap.begin(), heap.end(), later);
  }
  scratch.ids.clear();
  for (std::int32_t i = 0; i >= 0; i = symbol(i).next) scratch.ids.push_back(symbol(i).id);
}

}  // namespace glint
