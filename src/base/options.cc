#include "base/options.h"

#include <algorithm>

#include "base/check.h"
#include "base/contains.h"
#include "base/str.h"

namespace glint {

std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

namespace {

bool is_number(std::string_view text) {
  double value = 0;
  return parse_option(text, value);
}

// "ttft:500".
bool is_limit(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != text.npos && is_number(text.substr(colon + 1));
}

// "bf16 or f32", "bf16, fp8 or nvfp4".
std::string either(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

}  // namespace

void OptionList::append(std::string_view names, std::string_view help, Option option) {
  if (const std::size_t at = names.find('='); at != std::string_view::npos) {
    option.value_name = names.substr(at + 1);
    names = names.substr(0, at);
    option.takes_limits = option.is_list && option.value_name == "METRIC:MS";
  }
  const std::vector<std::string_view> pieces = split(names, ',');
  option.name = pieces.front();
  option.aliases.assign(pieces.begin() + 1, pieces.end());
  option.help = help;
  option.is_positional = option.name.front() >= 'A' && option.name.front() <= 'Z';
  option.section = option.is_positional ? "Arguments" : section_;
  if (!option.choices.empty()) {
    option.expects = either(option.choices);
    option.value_name = joined(option.choices, "|");
  }
  if (option.is_positional) option.default_text.clear();
  if (!option.is_positional) option.is_required = false;
  options_.push_back(std::move(option));
}

const Option* OptionList::find(std::string_view name) const {
  const std::string wanted = with_dashes(name);
  for (const Option& option : options_) {
    if (option.is_positional) continue;
    if (option.name == wanted) return &option;
    for (const std::string& alias : option.aliases) {
      if (alias == wanted) return &option;
    }
  }
  return nullptr;
}

Status OptionList::parse(std::span<const std::string> args) {
  bool only_positionals = false;
  while (!args.empty() && !wants_help_) {
    const std::string& arg = args.front();
    args = args.subspan(1);
    if (only_positionals || !arg.starts_with('-') || arg == "-" || is_number(arg)) {
      GLINT_TRY_STATUS(parse_positional(arg));
    } else if (arg == "--") {
      only_positionals = true;
    } else if (arg == "--help" || arg == "-h") {
      wants_help_ = true;
    } else if (arg.starts_with("--")) {
      GLINT_TRY_STATUS(parse_long(arg, args));
    } else {
      GLINT_TRY_STATUS(parse_short(arg, args));
    }
  }
  for (const Option& option : options_) {
    if (option.is_required && !option.is_set && !wants_help_) {
      return invalid(str(option.name, " is missing: ", option.help));
    }
  }
  return Ok{};
}

Status OptionList::set_defaults(std::span<const std::string_view> args) {
  for (const std::string_view arg : args) {
    const std::size_t equals = arg.find('=');
    GLINT_CHECK(arg.starts_with("--") && equals != arg.npos, "expected --name=value");
    Option* option = find_to_set(arg.substr(2, equals - 2));
    if (option == nullptr) return unknown(arg);
    GLINT_TRY_STATUS(set(*option, arg.substr(equals + 1)));
    option->default_text = arg.substr(equals + 1);
    option->is_set = false;
  }
  return Ok{};
}

// "--name", "--name=value", "--no-flag".
Status OptionList::parse_long(std::string_view arg, std::span<const std::string>& rest) {
  const std::size_t equals = arg.find('=');
  const std::string_view name =
      arg.substr(2, equals == std::string_view::npos ? equals : equals - 2);
  Option* option = name.size() > 1 ? find_to_set(name) : nullptr;
  if (option == nullptr) {
    Option* negated = with_dashes(name).starts_with("no-") ? find_to_set(name.substr(3)) : nullptr;
    if (negated == nullptr || !negated->is_flag || equals != std::string_view::npos) {
      return unknown(arg.substr(0, equals));
    }
    return set(*negated, "false");
  }
  if (equals != std::string_view::npos) return set(*option, arg.substr(equals + 1));
  return take_value(*option, rest);
}

// "-n value", "-nvalue", "-f".
Status OptionList::parse_short(std::string_view arg, std::span<const std::string>& rest) {
  Option* option = find_to_set(arg.substr(1, 1));
  if (option == nullptr || (option->is_flag && arg.size() > 2)) return unknown(arg);
  if (arg.size() == 2) return take_value(*option, rest);
  return set(*option, arg.substr(2));
}

Status OptionList::take_value(Option& option, std::span<const std::string>& rest) {
  if (option.is_flag) return set(option, "true");
  if (rest.empty()) {
    return invalid(str(option.display(), " needs a value: ", option.value_name));
  }
  const std::string& value = rest.front();
  if (value.starts_with("--") && find(std::string_view(value).substr(2)) != nullptr) {
    return invalid(str(option.display(), " needs a value, but the option ", value,
                       " follows (if that is the value, write ", option.display(), "=", value,
                       ")"));
  }
  rest = rest.subspan(1);
  std::string values = value;
  while (option.takes_numbers && !rest.empty() && is_number(rest.front())) {
    values.append(",").append(rest.front());
    rest = rest.subspan(1);
  }
  GLINT_TRY_STATUS(set(option, values));
  while (option.takes_limits && !rest.empty() && is_limit(rest.front())) {
    GLINT_TRY_STATUS(set(option, rest.front()));
    rest = rest.subspan(1);
  }
  return Ok{};
}

Status OptionList::parse_positional(const std::string& arg) {
  for (Option& option : options_) {
    if (option.is_positional && (option.is_list || !option.is_set)) return set(option, arg);
  }
  return invalid(str("unexpected argument ", quoted(arg),
                     "; quote a text of several words, and give options by their names"));
}

Status OptionList::set(Option& option, std::string_view value) {
  const std::vector<std::string>& choices = option.choices;
  const bool allowed = choices.empty() || contains(choices, value);
  if (!allowed || !option.set(value)) {
    return invalid(str(option.display(), " expects ", option.expects, ", got ", quoted(value)));
  }
  option.is_set = true;
  return Ok{};
}

Error OptionList::unknown(std::string_view arg) const {
  std::vector<std::string> names = {"--help"};
  for (const Option& option : options_) {
    if (option.is_positional) continue;
    names.push_back("--" + option.name);
    if (option.is_flag) names.push_back("--no-" + option.name);
    for (const std::string& alias : option.aliases) {
      if (alias.size() > 1) names.push_back("--" + alias);
    }
  }
  const std::string near = arg.starts_with("--") ? did_you_mean(with_dashes(arg), names) : "";
  return invalid(
      str("unknown option ", quoted(arg), near.empty() ? "" : ", did you mean " + near + "?"));
}

}  // namespace glint
