// NFC (UAX #15) by utf8proc, but that of Unicode 9.0: what has got a combining class or a
// decomposition since stays as it is, as in the `tokenizers` package.
#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

namespace glint {
namespace {

using CodePoint = utf8proc_int32_t;

struct Run {
  CodePoint first, last;
};

// The characters of Unicode 10.0 to 15.0 that have a combining class or a decomposition, or are the
// second part of one.
constexpr Run kLater[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_later(CodePoint c) {
  if (c < kLater[0].first) return false;
  const Run* run = std::lower_bound(std::begin(kLater), std::end(kLater), c,
                                    [](const Run& run, CodePoint c) { return run.last < c; });
  return run != std::end(kLater) && run->first <= c;
}

int combining_class(CodePoint c) {
  return is_later(c) ? 0 : utf8proc_get_property(c)->combining_class;
}

void decompose(CodePoint c, std::vector<CodePoint>& out) {
  CodePoint parts[8] = {c};  // the longest have 4
  utf8proc_ssize_t size = 1;
  int boundary = 0;
  if (!is_later(c))
    size = utf8proc_decompose_char(c, parts, std::ssize(parts), UTF8PROC_DECOMPOSE, &boundary);
  out.insert(out.end(), parts, parts + size);
}

// Puts each run of combining characters into the order of their classes. (utf8proc does it in
// quadratic time.)
void order_marks(std::vector<CodePoint>& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end =
        std::find_if(at, text.end(), [](CodePoint c) { return combining_class(c) == 0; });
    std::stable_sort(
        at, end, [](CodePoint a, CodePoint b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void compose(std::vector<CodePoint>& text) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(text.data(), std::ssize(text), kOptions);
  text.resize(static_cast<std::size_t>(size));
}

// Whether `c` neither changes nor joins a character before it: the form of the text before it does
// not depend on it.
bool is_boundary(CodePoint c) {
  if (c < 0x300) return true;
  if (c >= 0x4E00 && c < 0xA000) return true;  // ideographs, for speed
  if (c == 0x11A7) return true;  // no part of a syllable, but utf8proc would compose it
  if (c >= 0xAC00 && c <= 0xD7A3) return true;   // syllables are arithmetic,
  if (c >= 0x1161 && c <= 0x11C2) return false;  // and these are their later parts
  if (is_later(c)) return true;
  const utf8proc_property_t& property = *utf8proc_get_property(c);
  const bool decomposes = property.decomp_seqindex != UINT16_MAX && property.decomp_type == 0;
  const bool joins = property.comb_index >= 0x8000 && property.comb_index != UINT16_MAX;
  return property.combining_class == 0 && !decomposes && !joins;
}

}  // namespace

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<CodePoint> segment;
  std::size_t copied = 0;    // the end of the text whose form `out` holds
  std::size_t previous = 0;  // where the last boundary character begins
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (is_boundary(static_cast<CodePoint>(next_code_point(text, at)))) {
      previous = begin;
      continue;
    }
    // From the boundary character on, to the next one.
    out.append(text, copied, previous - copied);
    segment.clear();
    for (std::size_t i = previous; i < at;)
      decompose(static_cast<CodePoint>(next_code_point(text, i)), segment);
    std::size_t end = at;
    while (end < text.size()) {
      const auto c = static_cast<CodePoint>(next_code_point(text, at));
      if (is_boundary(c)) break;
      decompose(c, segment);
      end = at;
    }
    order_marks(segment);
    compose(segment);
    for (const CodePoint c : segment) append_utf8(out, static_cast<char32_t>(c));
    copied = previous = at = end;
  }
  return out.append(text, copied);
}

}  // namespace glint
