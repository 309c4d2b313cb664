// Options: a struct lists its fields once, and the command line and --help are made from that list.
//
//   struct Options {
//     std::string model;
//     int max_tokens = 256;
//     std::optional<double> temperature;
//     std::string dtype = "bf16";
//     std::vector<std::string> stop;
//
//     template <class Visitor>
//     void visit(Visitor&& v) {
//       v("MODEL", model, "directory of a checkpoint");  // a capital: positional
//       v.section("Sampling");
//       v("max-tokens,n", max_tokens, "tokens to generate at most");
//       v("temperature", temperature, "0 is greedy (default: generation_config.json)");
//       v("dtype", dtype, "what to compute in", {"bf16", "f32"});
//       v("stop=TEXT", stop, "end the answer before this text; repeatable");
//     }
//   };
//
// The first argument is "name,alias,...=VALUE": one-letter aliases are short options, VALUE is what
// the help shows for the value. The other arguments are the field, whose initial value is the
// default, the help, and for texts and enums the only values allowed (an enum's are its enumerators
// from 0 up, in order).
//
// Fields: bool (a flag), int, int64, uint64, float, double, std::string, enums, std::optional of
// these, std::vector<int> (a comma-separated list; "1 2" is "1,2"), std::vector<std::string>
// (repeatable, or as a positional: the rest). A positional that is neither optional nor a vector is
// required.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/option_value.h"
#include "base/result.h"

namespace glint {

struct Option {
  std::string name;                  // "max-tokens"; of a positional "MODEL"
  std::vector<std::string> aliases;  // "n", "max-new-tokens"
  std::string value_name;            // "N"; empty for a flag
  std::string help;
  std::string section;
  std::string expects;       // "an integer": for the message that refuses a value
  std::string default_text;  // "256"; empty if there is none to show
  std::vector<std::string> choices;
  bool is_positional = false;
  bool is_required = false;
  bool is_flag = false;
  bool is_list = false;        // takes several values, each given to `set`
  bool takes_numbers = false;  // "1,2", which may also be written as words: "1 2"
  bool takes_limits = false;   // of a name "x=METRIC:MS": a list whose words may follow, "a:1 b:2"
  bool is_set = false;         // the user gave it

  // Stores a value in the field; false if it does not parse.
  std::function<bool(std::string_view)> set;

  std::string display() const { return is_positional ? name : "--" + name; }
};

class OptionList {
 public:
  // Lists the fields of `options`, which must outlive the list.
  template <class T>
  explicit OptionList(T& options) {
    options.visit(*this);
  }

  // Adds an option; visit() calls this: see the top of the file.
  template <class T>
  void operator()(std::string_view names, T& field, std::string_view help,
                  std::initializer_list<std::string_view> choices = {});

  // Gives options another default than their field had, "--name=value", which the help then shows.
  Status set_defaults(std::span<const std::string_view> args);

  // Title of the options that follow, in the help.
  void section(std::string_view title) { section_ = title; }

  // Reads a command line into the fields. Names may be spelled with '-' or '_'; "--name value",
  // "--name=value", "-n value", "-nvalue", "--flag", "--no-flag", "--flag=false"; "--" ends the
  // options; of a repeated option the last counts. Stops at --help or -h, after which wants_help()
  // is true and nothing is missing.
  Status parse(std::span<const std::string> args);
  bool wants_help() const { return wants_help_; }

  const std::vector<Option>& options() const { return options_; }
  // The one of that name or alias; null if there is none. Positionals have no names.
  const Option* find(std::string_view name) const;

 private:
  void append(std::string_view names, std::string_view help, Option option);
  Option* find_to_set(std::string_view name) { return const_cast<Option*>(find(name)); }
  Status parse_long(std::string_view arg, std::span<const std::string>& rest);
  Status parse_short(std::string_view arg, std::span<const std::string>& rest);
  Status parse_positional(const std::string& arg);
  Status take_value(Option& option, std::span<const std::string>& rest);
  Status set(Option& option, std::string_view value);
  Error unknown(std::string_view arg) const;

  std::vector<Option> options_;
  std::string section_ = "Options";
  bool wants_help_ = false;
};

namespace option_detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using type = T;
};

}  // namespace option_detail

template <class T>
void OptionList::operator()(std::string_view names, T& field, std::string_view help,
                            std::initializer_list<std::string_view> choices) {
  using Value = typename option_detail::Plain<T>::type;
  constexpr bool kOptional = option_detail::is_optional<T>;
  Option option;
  option.choices.assign(choices.begin(), choices.end());
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    option.is_list = true;
    option.expects = "a text";
    option.value_name = "TEXT";
    option.set = [&field, fresh = true](std::string_view text) mutable {
      if (fresh) field.clear();  // the user's values replace the default
      fresh = false;
      field.emplace_back(text);
      return true;
    };
  } else if constexpr (std::is_enum_v<Value>) {
    option.set = [&field, allowed = option.choices](std::string_view text) {
      const auto at = std::find(allowed.begin(), allowed.end(), text);
      if (at == allowed.end()) return false;
      field = static_cast<Value>(at - allowed.begin());
      return true;
    };
    if constexpr (!kOptional) {
      option.default_text = option.choices.at(static_cast<std::size_t>(field));
    }
  } else {
    constexpr OptionKind kKind = option_kind(static_cast<Value*>(nullptr));
    option.expects = kKind.expects;
    option.value_name = kKind.value_name;
    option.is_flag = std::is_same_v<Value, bool>;
    option.takes_numbers = std::is_same_v<Value, std::vector<int>>;
    option.set = [&field](std::string_view text) {
      Value value = {};
      if (!parse_option(text, value)) return false;
      field = std::move(value);
      return true;
    };
    if constexpr (!kOptional) option.default_text = option_text(field);
  }
  option.is_required = !kOptional && !option.is_list;
  append(names, help, std::move(option));
}

// Names are written with '-'; users may type '_'.
std::string with_dashes(std::string_view name);

}  // namespace glint
