// The help page of an OptionList: usage, what it does, aligned options with their defaults,
// examples.
#include "base/help.h"

#include <algorithm>

#include "base/contains.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr int kMaxLeftColumn = 30;  // longer option names put their help on the next line

// "MODEL", "[TEXT...]", "      --max-tokens N", "  -p, --prompt TEXT".
std::string left_column(const Option& option) {
  if (option.is_positional) return "  " + option.name + (option.is_list ? "..." : "");
  std::string shorts, longs;
  for (const std::string& alias : option.aliases) {
    if (alias.size() == 1) {
      shorts += "-" + alias + ", ";
    } else {
      longs += ", --" + alias;
    }
  }
  const bool on_by_default = option.is_flag && !option.default_text.empty();
  return "  " + (shorts.empty() ? "    " : shorts) + (on_by_default ? "--[no-]" : "--") +
         option.name + longs + (option.is_flag ? "" : " " + option.value_name);
}

// A help that tells the default in its own words keeps them.
std::string right_column(const Option& option) {
  const bool told = option.help.find("(default: ") != std::string::npos;
  if (told || option.default_text.empty()) return option.help;
  return str(option.help, " (default: ", option.default_text, ")");
}

std::string usage(const HelpPage& page, const OptionList& list) {
  std::string line = "Usage: " + page.program;
  for (const Option& option : list.options()) {
    if (!option.is_positional) continue;
    const std::string name = option.name + (option.is_list ? "..." : "");
    line += " " + (option.is_required ? name : "[" + name + "]");
  }
  return line + " [options]";
}

}  // namespace

std::string wrap(std::string_view text, int width, int indent) {
  std::string out;
  int column = indent;
  bool first = true;
  for (const std::string_view word : words_of(text, " ")) {
    const int length = static_cast<int>(word.size());
    if (!first && column + 1 + length > width) {
      out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    first = false;
  }
  return out;
}

std::string help_text(const HelpPage& page, const OptionList& list, int width) {
  int left_width = 0;
  for (const Option& option : list.options()) {
    const int length = static_cast<int>(left_column(option).size());
    if (length <= kMaxLeftColumn) left_width = std::max(left_width, length);
  }
  // Where every name is too long, their help stands inside them.
  const int indent = left_width ? left_width + 2 : 10;
  width = std::clamp(width, indent + 30, 100);

  std::string out = str(page.program, ": ", page.summary, "\n\n", wrap(usage(page, list), width, 7),
                        "\n\n", wrap(page.description, width, 0), "\n");
  std::vector<std::string> sections;
  for (const Option& option : list.options()) {
    if (!contains(sections, option.section)) {
      sections.push_back(option.section);
    }
  }
  for (const std::string& section : sections) {
    out += "\n" + section + ":\n";
    for (const Option& option : list.options()) {
      if (option.section != section) continue;
      std::string left = left_column(option);
      if (static_cast<int>(left.size()) > left_width) {
        out += left + "\n";
        left.clear();
      }
      left.resize(static_cast<std::size_t>(indent), ' ');
      out += left + wrap(right_column(option), width, indent) + "\n";
    }
  }
  if (!page.examples.empty()) out += "\nExamples:\n";
  for (const HelpPage::Example& example : page.examples) {
    out += str("  ", example.command, "\n      ", wrap(example.meaning, width, 6), "\n");
  }
  return out;
}

}  // namespace glint
