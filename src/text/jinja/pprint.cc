// pprint.pformat: a value over several lines of at most 80 characters, dicts sorted by key.
#include "text/jinja/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"

namespace glint::jinja {
namespace {

constexpr Int kWidth = 80;

Int width_of(std::string_view text) { return static_cast<Int>(count_code_points(text)); }

// The value with the entries of all its dicts sorted by key.
Result<Value> with_sorted_keys(Runtime& runtime, const Value& value) {
  GLINT_TRY_STATUS(runtime.budget.spend_steps(1));
  if (value.is_sequence()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) {
      GLINT_TRY(Value sorted, with_sorted_keys(runtime, item));
      items.push_back(std::move(sorted));
    }
    return value.is_list() ? runtime.make_list(std::move(items))
                           : runtime.make_tuple(std::move(items));
  }
  if (!value.is_dict()) return value;
  std::vector<Value> keys;
  for (const Dict::Entry& entry : value.as_dict().entries()) keys.push_back(entry.key);
  // Keys that cannot be compared are ordered by type in Python; here they stay as they are.
  const std::vector<Value> unsorted = keys;
  if (!sort_by_keys(runtime, keys, unsorted, false).ok()) keys = unsorted;
  Dict sorted;
  for (const Value& key : keys) {
    GLINT_TRY(std::string text, key_text(runtime, key));
    GLINT_TRY(Value item, with_sorted_keys(runtime, *value.as_dict().find(text)));
    sorted.set(std::move(text), key, std::move(item));
  }
  return runtime.make_dict(std::move(sorted));
}

class PrettyPrinter {
 public:
  explicit PrettyPrinter(Runtime& runtime) : runtime_(runtime) {}

  // `indent` characters stand before the value in its line, `allowance` will follow it.
  Status print(const Value& value, Int indent, Int allowance, int level) {
    GLINT_TRY(const std::string flat, to_repr(runtime_, value));
    if (width_of(flat) <= kWidth - indent - allowance) return add(flat);
    if (value.is_dict() && value.as_dict().size() > 0)
      return print_dict(value.as_dict(), indent, allowance, level);
    if (value.is_sequence() && !value.items().empty())
      return print_items(value, indent, allowance, level);
    if (value.is_string() && !value.is_markup())
      return print_string(value.text(), indent, allowance, level);
    return add(flat);
  }

  std::string out;

 private:
  Status add(std::string_view text) {
    GLINT_TRY_STATUS(runtime_.budget.spend_bytes(text.size()));
    out += text;
    return Ok{};
  }

  Status new_line(Int indent) {
    return add("\n" + std::string(static_cast<std::size_t>(indent), ' '));
  }

  Status print_dict(const Dict& dict, Int indent, Int allowance, int level) {
    GLINT_TRY_STATUS(add("{"));
    for (const Dict::Entry& entry : dict.entries()) {
      const bool is_last = &entry == &dict.entries().back();
      GLINT_TRY(const std::string key, to_repr(runtime_, entry.key));
      GLINT_TRY_STATUS(add(key + ": "));
      GLINT_TRY_STATUS(print(entry.value, indent + 1 + width_of(key) + 2,
                             is_last ? allowance + 1 : 1, level + 1));
      if (!is_last) {
        GLINT_TRY_STATUS(add(","));
        GLINT_TRY_STATUS(new_line(indent + 1));
      }
    }
    return add("}");
  }

  Status print_items(const Value& value, Int indent, Int allowance, int level) {
    const std::vector<Value>& items = value.items();
    const std::string end = value.is_list() ? "]" : items.size() == 1 ? ",)" : ")";
    GLINT_TRY_STATUS(add(value.is_list() ? "[" : "("));
    for (const Value& item : items) {
      const bool is_last = &item == &items.back();
      GLINT_TRY_STATUS(print(item, indent + 1, is_last ? allowance + width_of(end) : 1, level + 1));
      if (!is_last) {
        GLINT_TRY_STATUS(add(","));
        GLINT_TRY_STATUS(new_line(indent + 1));
      }
    }
    return add(end);
  }

  // Words with the blanks behind them.
  static std::vector<std::string> words(std::string_view line) {
    std::vector<std::string> parts;
    bool in_blank = true;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t size = byte_offset(line.substr(at), 1);
      const std::string_view c = line.substr(at, size);
      const bool blank = all_in_class(kSpace, c);
      if (parts.empty() || (in_blank && !blank)) parts.emplace_back();
      parts.back() += c;
      in_blank = blank;
      at += size;
    }
    return parts;
  }

  Status print_string(std::string_view text, Int indent, Int allowance, int level) {
    if (level == 1) ++indent, ++allowance;
    std::vector<std::string> chunks;
    const std::vector<std::string_view> lines = split_lines(text, true);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool is_last_line = i + 1 == lines.size();
      const std::string flat = string_repr(lines[i]);
      if (width_of(flat) <= kWidth - indent - (is_last_line ? allowance : 0)) {
        chunks.push_back(flat);
        continue;
      }
      std::string current;
      const std::vector<std::string> parts = words(lines[i]);
      for (std::size_t j = 0; j < parts.size(); ++j) {
        const bool is_last = is_last_line && j + 1 == parts.size();
        GLINT_TRY_STATUS(runtime_.budget.spend_steps(1 + current.size() / 64));
        if (width_of(string_repr(current + parts[j])) >
            kWidth - indent - (is_last ? allowance : 0)) {
          if (!current.empty()) chunks.push_back(string_repr(current));
          current = parts[j];
        } else {
          current += parts[j];
        }
      }
      if (!current.empty()) chunks.push_back(string_repr(current));
    }
    if (chunks.size() == 1) return add(chunks[0]);
    if (level == 1) GLINT_TRY_STATUS(add("("));
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i) GLINT_TRY_STATUS(new_line(indent));
      GLINT_TRY_STATUS(add(chunks[i]));
    }
    return level == 1 ? add(")") : Status(Ok{});
  }

  Runtime& runtime_;
};

}  // namespace

Result<std::string> pretty_print(Runtime& runtime, const Value& value) {
  GLINT_TRY(const Value sorted, with_sorted_keys(runtime, value));
  PrettyPrinter printer(runtime);
  GLINT_TRY_STATUS(printer.print(sorted, 0, 0, 1));
  return std::move(printer.out);
}

}  // namespace glint::jinja
