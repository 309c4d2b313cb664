// Normal forms (UAX #15) and lower case over generated tables.

#include <algorithm>
#include <vector>

#include "text/unicode.h"
#include "text/unicode_tables.h"

namespace glint {
namespace {

// Hangul syllables are arithmetic (Unicode 3.12).
constexpr char32_t kS = 0xAC00, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
constexpr char32_t kNumS = 11172, kNumL = 19, kNumV = 21, kNumT = 28;

// Below this neither form changes a character by what follows or precedes it.
constexpr char32_t kFirstMark = 0x300;
// ... and below this none changes one at all.
constexpr char32_t kFirstExpanding = 0xA0;

bool composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }
bool expands(NormalForm form) { return form == NormalForm::kNfkc || form == NormalForm::kNfkd; }

std::uint8_t combining_class(char32_t c) {
  if (c < kFirstMark) return 0;
  const CombiningRun* end = kCombiningRuns + kNumCombiningRuns;
  const CombiningRun* run = std::lower_bound(
      kCombiningRuns, end, c, [](const CombiningRun& run, char32_t c) { return run.last < c; });
  return run != end && run->first <= c ? run->combining_class : 0;
}

const Decomposition* decomposition(char32_t c) {
  const Decomposition* end = kDecompositions + kNumDecompositions;
  const Decomposition* found = std::lower_bound(
      kDecompositions, end, c, [](const Decomposition& d, char32_t c) { return d.character < c; });
  return found != end && found->character == c ? found : nullptr;
}

// The compatibility decomposition; null where it is the canonical one.
const char32_t* expansion(char32_t c) {
  if (c < kFirstExpanding) return nullptr;
  const Expansion* end = kExpansions + kNumExpansions;
  const Expansion* found = std::lower_bound(
      kExpansions, end, c, [](const Expansion& e, char32_t c) { return e.character < c; });
  return found != end && found->character == c ? found->text : nullptr;
}

void decompose(char32_t c, NormalForm form, std::vector<char32_t>& out) {
  if (const char32_t* text = expands(form) ? expansion(c) : nullptr) {
    while (*text) out.push_back(*text++);
  } else if (c - kS < kNumS) {
    const char32_t s = c - kS;
    out.push_back(kL + s / (kNumV * kNumT));
    out.push_back(kV + s / kNumT % kNumV);
    if (s % kNumT) out.push_back(kT + s % kNumT);
  } else if (const Decomposition* pair = decomposition(c)) {
    decompose(pair->first, form, out);  // the second never decomposes further
    if (pair->second) out.push_back(pair->second);
  } else {
    out.push_back(c);
  }
}

// Puts each run of combining characters into the order of their classes.
void order_marks(std::vector<char32_t>& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    auto end = at;
    while (end != text.end() && combining_class(*end) != 0) ++end;
    std::stable_sort(
        at, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

// The character that the pair composes to, or 0.
char32_t compose_pair(char32_t first, char32_t second) {
  if (first - kL < kNumL && second - kV < kNumV) {
    return kS + ((first - kL) * kNumV + (second - kV)) * kNumT;
  }
  if (first - kS < kNumS && (first - kS) % kNumT == 0 && second - kT - 1 < kNumT - 1) {
    return first + (second - kT);
  }
  const std::uint16_t* end = kCompositions + kNumCompositions;
  const std::uint16_t* found =
      std::lower_bound(kCompositions, end, second, [&](std::uint16_t i, char32_t) {
        const Decomposition& d = kDecompositions[i];
        return d.first != first ? d.first < first : d.second < second;
      });
  if (found == end) return 0;
  const Decomposition& pair = kDecompositions[*found];
  return pair.first == first && pair.second == second ? pair.character : 0;
}

void compose(std::vector<char32_t>& text) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t starter = kNone;  // in the output
  std::size_t size = 0;
  int last_class = 0;  // of the output's last character, behind the starter
  for (const char32_t c : text) {
    const int own_class = combining_class(c);
    const bool adjacent = starter != kNone && size == starter + 1;
    if (starter != kNone && (adjacent || last_class < own_class)) {
      if (const char32_t composed = compose_pair(text[starter], c)) {
        text[starter] = composed;
        continue;
      }
    }
    if (own_class == 0) starter = size;
    last_class = own_class;
    text[size++] = c;
  }
  text.resize(size);
}

// Whether `c` can change in the form or join what precedes it. A character that does neither is a
// boundary: what stands before it is normalized without regard to it.
bool is_boundary(char32_t c, NormalForm form) {
  if (c < kFirstExpanding) return true;
  if (expands(form) && expansion(c)) return false;
  if (c < kFirstMark) return composes(form) || c < 0xC0;
  if (c - kS < kNumS) return composes(form);
  if (c - kV < kNumV || c - kT - 1 < kNumT - 1) return false;
  if (c - 0x4E00 < 0x5200) return true;  // ideographs, for speed
  if (combining_class(c) != 0) return false;
  if (const Decomposition* d = decomposition(c)) {
    return composes(form) && d->second != 0 && compose_pair(d->first, d->second) == c;
  }
  return !composes(form) || !std::binary_search(kJoining, kJoining + kNumJoining, c);
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  std::string out;
  out.reserve(text.size());
  std::vector<char32_t> segment;
  std::size_t copied = 0;    // what `out` holds the form of
  std::size_t previous = 0;  // where the last boundary character begins
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    char32_t c = next_code_point(text, at);
    if (is_boundary(c, form)) {
      previous = begin;
      continue;
    }
    // From the boundary character on, to the next one.
    out.append(text, copied, previous - copied);
    segment.clear();
    for (std::size_t i = previous; i < at;) decompose(next_code_point(text, i), form, segment);
    std::size_t end = at;
    while (end < text.size()) {
      c = next_code_point(text, at);
      if (is_boundary(c, form)) break;
      decompose(c, form, segment);
      end = at;
    }
    order_marks(segment);
    if (composes(form)) compose(segment);
    for (const char32_t s : segment) append_utf8(out, s);
    copied = previous = at = end;
  }
  return out.append(text, copied);
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const LowerRun* end = kLowerRuns + kNumLowerRuns;
    const LowerRun* run = std::lower_bound(
        kLowerRuns, end, c, [](const LowerRun& run, char32_t c) { return run.last < c; });
    if (c == 0x130) {
      out += "i\xCC\x87";  // I with dot above: the only one that becomes two
    } else if (run != end && run->first <= c && (c - run->first) % run->step == 0) {
      append_utf8(out, static_cast<char32_t>(static_cast<std::int64_t>(c) + run->distance));
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

}  // namespace glint
