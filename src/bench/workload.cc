#include "bench/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_text.h"
#include "base/random.h"
#include "base/str.h"
#include "bench/json_rows.h"

namespace glint {
namespace {

constexpr std::uint64_t kLengths = std::uint64_t{1} << 40;  // streams of random numbers
constexpr std::uint64_t kPrefixes = std::uint64_t{1} << 41;
constexpr std::uint64_t kOrder = std::uint64_t{1} << 42;
constexpr int kLettersOfToken = 4;
constexpr std::string_view kWords =
    "the of and to in is that for it as was with be by on not he his but at are this have from or "
    "had an they which one you were all her she there would their we him been has when who will "
    "no more if out so up said what its about than into them can only other time new some could "
    "these two may first then do any like my now over such our man me even most made after also "
    "did many off before must well back through years where much your way down should because "
    "long each just state those people too here year life world house own work last school high "
    "under day old left water city number against few great";

int draw_length(Random& random, int length, double ratio, RangeDialect dialect) {
  const bool vllm = dialect == RangeDialect::kVllm;
  const double low = vllm ? length * (1 - ratio) : length * ratio;
  const double high = vllm ? length * (1 + ratio) : length;
  const int first = std::max(static_cast<int>(std::floor(low)), 1);
  const int last = std::max(static_cast<int>(std::ceil(high)), first);
  return first + static_cast<int>(random.below(static_cast<std::uint32_t>(last - first + 1)));
}

void append_ids(std::vector<std::int64_t>& ids, Random& random, int count, int num_ids) {
  for (int i = 0; i < count; ++i) ids.push_back(random.below(static_cast<std::uint32_t>(num_ids)));
}

int letters(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Questions and answers in turn, of ShareGPT or as messages of chat; empty if it does not begin
// with both.
Conversation read_conversation(const Json& entry, int output_len, int max_turns) {
  Conversation out;
  const Json* turns = entry.find("conversations");
  const bool chats = !turns;
  if (chats) turns = entry.find("messages");
  if (!turns || !turns->is_array()) return out;
  const Json::Array& list = turns->as_array();
  const std::string* first = list.empty() ? nullptr : text_of(list[0], chats ? "role" : "from");
  const char* const text = chats ? "content" : "value";
  std::size_t i = first && *first == "system" ? 1 : 0;
  for (; i + 1 < list.size() && static_cast<int>(out.size()) < max_turns; i += 2) {
    const std::string* question = text_of(list[i], text);
    const std::string* answer = text_of(list[i + 1], text);
    if (!question || question->empty() || !answer) break;
    const int length = output_len > 0 ? output_len : letters(*answer) / kLettersOfToken;
    out.push_back({.text = *question, .output_len = std::max(length, 1)});
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> random_prompt(const PromptOptions& options, int index) {
  std::vector<std::int64_t> out;
  if (options.prefix_len > 0) {
    const int prefix = index % std::max(options.num_prefixes, 1);
    Random random(options.seed, kPrefixes + static_cast<std::uint64_t>(prefix));
    append_ids(out, random, options.prefix_len, options.num_ids);
  }
  Random lengths(options.seed, kLengths + static_cast<std::uint64_t>(index));
  const int length = draw_length(lengths, options.input_len, options.input_ratio, options.dialect);
  Random random(options.seed, static_cast<std::uint64_t>(index));
  append_ids(out, random, length, options.num_ids);
  return out;
}

std::string random_text(const PromptOptions& options, int index) {
  static const std::vector<std::string_view> words = split(kWords, ' ');
  PromptOptions of_words = options;
  of_words.num_ids = static_cast<int>(words.size());
  std::string out;
  for (const std::int64_t id : random_prompt(of_words, index)) {
    if (!out.empty()) out += ' ';
    out += words[static_cast<std::size_t>(id)];
  }
  return out;
}

int random_output_len(const PromptOptions& options, int index) {
  Random lengths(options.seed, kLengths + static_cast<std::uint64_t>(index));
  draw_length(lengths, options.input_len, options.input_ratio, options.dialect);
  return draw_length(lengths, options.output_len, options.output_ratio, options.dialect);
}

Result<std::vector<Conversation>> read_sharegpt(const std::string& path, int output_len,
                                                int max_turns, std::uint64_t seed) {
  GLINT_TRY(const Json::Array rows, read_rows(path));
  std::vector<Conversation> all;
  for (const Json& entry : rows) {
    if (Conversation each = read_conversation(entry, output_len, max_turns); !each.empty())
      all.push_back(std::move(each));
  }
  if (all.empty())
    return invalid(
        str(quoted_path(path),
            " has no conversation with a question and an answer; expected "
            "[{\"conversations\": [{\"from\": \"human\", \"value\": \"...\"}, ...]}, ...], or "
            "rows of \"messages\""));
  Random random(seed, kOrder);
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[random.below(static_cast<std::uint32_t>(i))]);
  return all;
}

}  // namespace glint
