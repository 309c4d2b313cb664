#include "server/flags/translate_flags.h"

#include <algorithm>
#include <optional>

#include "base/contains.h"
#include "base/option_value.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "base/yaml.h"
#include "server/flags/flag_parts.h"

namespace glint {
namespace {

using Takes = FlagRule::Takes;
using Does = FlagRule::Does;

using NamedRule = std::pair<std::string_view, const FlagRule*>;

// The names of `table`, in its order.
std::vector<NamedRule> rules_of(const FlagTable& table) {
  std::vector<NamedRule> out;
  for (const FlagRule& rule : table.rules) {
    for (const std::string_view name : rule.names) out.emplace_back(name, &rule);
  }
  return out;
}

// Whether `name` stands in `text`, and not as the beginning of a longer one.
bool mentions(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool goes_on = end < text.size() && (is_alnum(text[end]) || text[end] == '-');
    if (!goes_on) return true;
  }
  return false;
}

// One flag as it was given: `name` with dashes, less those that lead a long one.
struct Setting {
  std::string name;
  std::optional<std::string> value = {};
  std::string shown = {};   // as the user wrote it, without the value
  bool is_negated = false;  // the user wrote "no-" before the name, which is the value
  bool is_further = false;  // a value after the first of a flag with several
};

// As the user wrote it, for a line that explains.
std::string in_words(const Setting& setting) {
  const bool has_word = setting.value && *setting.value != "true" && !setting.is_negated;
  return has_word ? setting.shown + " " + *setting.value : setting.shown;
}

// A part of the layout or of speculation, as errors call it.
std::string name_in_errors(const FlagRule& part) {
  if (part.does == Does::kLayout) return str("--", part.target);
  if (part.target == "tokens") return "--spec";
  return part.target == "method" ? "speculation by" : "a draft model";
}

// The object or the list that a text holds; null if it is neither.
Result<Json> json_in(const std::string& text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return Json();
  return parse_json(text);
}

class Translator {
 public:
  Translator(Dialect dialect, const OptionList& own)
      : dialect_(dialect), table_(flags_of(dialect)), rules_(rules_of(table_)), own_(own) {}

  Status read_line(std::span<const std::string> args);
  Result<TranslatedArgs> finish();

 private:
  const FlagRule* find_rule(std::string_view name) const;
  const Option* find_own(std::string_view name) const;
  bool takes_json(std::string_view name) const;
  bool is_member_of_json(std::string_view name) const;
  bool has_meaning(const std::string& group) const;
  Result<Json> group_in(const std::string& name, const Json& value, const std::string& shown) const;
  Status apply(const Setting& setting);
  Status apply_each(Setting setting, const std::vector<std::string>& values);
  Status switch_off(const Setting& given);
  Status apply_rule(const FlagRule& rule, const Setting& setting);
  Status apply_value(const FlagRule& rule, const Setting& setting);
  Status set_member(const Setting& setting);
  Status apply_members(const std::string& name, const Json& value, const std::string& shown);
  Status read_config(const std::string& path);
  Status take(const Setting& setting, std::span<const std::string>& rest);
  void ignore(const Setting& setting, std::string_view why);
  void note_graphs(const Setting& setting);
  void give(std::string_view option, const std::string& value, const Setting& setting);
  void note_file(const std::string& name, const Setting& setting);
  Error unknown(const Setting& setting) const;
  Status check_member(const std::string& name, const std::string& shown) const;
  Status set_part(const FlagRule& rule, const std::string& value, const Setting& setting);
  void forget_overridden();
  Status finish_parts();
  void count_all_requests();

  const Dialect dialect_;
  const FlagTable table_;
  const std::vector<NamedRule> rules_;
  const OptionList& own_;
  TranslatedArgs out_;
  std::vector<std::string> from_file_, from_line_, positional_, model_of_file_;
  std::vector<std::string>* target_ = &from_line_;
  std::string path_;  // of the file that is read
  bool file_wins_ = false;
  FlagParts speculation_, layout_;
  int replicas_ = 1;  // LayoutArguments
};

const FlagRule* Translator::find_rule(std::string_view name) const {
  const FlagRule* group = nullptr;
  for (const auto& [each, rule] : rules_) {
    if (each == name) return rule;
    if (group != nullptr || !each.ends_with(".*")) continue;
    const std::string_view prefix = each.substr(0, each.size() - 2);
    if (name == prefix || (name.starts_with(prefix) && name[prefix.size()] == '.')) group = rule;
  }
  return group;
}

const Option* Translator::find_own(std::string_view name) const {
  for (const Option& option : own_.options()) {
    if (option.is_positional) continue;
    if (option.name == name) return &option;
    if (contains(option.aliases, name)) return &option;
  }
  return nullptr;
}

bool Translator::takes_json(std::string_view name) const {
  const FlagRule* rule = find_rule(name);
  const Option* option = find_own(rule == nullptr ? name : rule->target);
  return option != nullptr && option->value_name == "JSON";
}

bool Translator::is_member_of_json(std::string_view name) const {
  const std::size_t dot = name.find('.');
  return dot != name.npos && takes_json(name.substr(0, dot));
}

void Translator::ignore(const Setting& setting, std::string_view why) {
  const std::string line = str(in_words(setting), " (", why, ")");
  if (!contains(out_.ignored, line)) out_.ignored.push_back(line);
}

void Translator::note_graphs(const Setting& setting) {
  if (setting.is_further) {
    out_.graphs.given.back() += str(" ", *setting.value);
  } else {
    out_.graphs.given.push_back(in_words(setting));
  }
}

Error Translator::unknown(const Setting& setting) const {
  std::vector<std::string> names;
  for (const Option& option : own_.options()) {
    if (!option.is_positional) names.push_back(option.name);
  }
  for (const auto& [name, rule] : rules_) {
    const bool is_letter = name.size() == 1;
    if (!is_letter && !name.ends_with(".*") && !name.starts_with('-')) names.emplace_back(name);
  }
  const std::string near = did_you_mean(setting.name, names);
  return invalid(str("unknown option ", quoted(setting.shown),
                     near.empty() ? std::string() : ", did you mean --" + near + "?"));
}

// A group is ignored but for some of its members: one that is nearly the name of such is a mistake.
Status Translator::check_member(const std::string& name, const std::string& shown) const {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return Ok{};
  const std::string_view group = std::string_view(name).substr(0, dot + 1);
  std::vector<std::string> members;
  for (const auto& [each, rule] : rules_) {
    if (each == name) return Ok{};
    const bool is_member = each.starts_with(group) && !each.ends_with(".*");
    if (is_member) members.emplace_back(each.substr(group.size()));
  }
  const std::string near = did_you_mean(name.substr(dot + 1), members);
  if (near.empty()) return Ok{};
  std::string meant = str(group, near);
  if (shown.find('_') != shown.npos) std::replace(meant.begin(), meant.end(), '-', '_');
  return invalid(str("unknown key ", quoted(shown), ", did you mean ", meant, "?"));
}

// An option of `glint serve`.
void Translator::give(std::string_view option, const std::string& value, const Setting& setting) {
  const std::string name = str("--", option);
  if (target_ == &from_line_) {  // of a repeated option the last counts
    std::erase_if(out_.named,
                  [&](const NamedSetting& each) { return each.name == name && each.path.empty(); });
    if (with_dashes(setting.shown) != name) out_.named.push_back({name, setting.shown, ""});
  }
  note_file(name, setting);
  target_->push_back(name + "=" + value);
}

// Where `name` has its value from, if that is a file.
void Translator::note_file(const std::string& name, const Setting& setting) {
  if (target_ == &from_file_) out_.named.push_back({name, setting.shown, path_});
}

Status Translator::apply_value(const FlagRule& rule, const Setting& setting) {
  FlagRule::Converted converted = {.value = setting.value};
  if (rule.convert != nullptr) {
    GLINT_TRY(converted, rule.convert(*setting.value).in(setting.shown));
  }
  if (!converted.why.empty()) ignore(setting, converted.why);
  if (!converted.value) return Ok{};
  switch (rule.does) {
    case Does::kSet:
      if (rule.target == "MODEL") {
        (target_ == &from_file_ ? model_of_file_ : positional_).push_back(*converted.value);
      } else {
        give(rule.target, *converted.value, setting);
      }
      break;
    case Does::kExpect:
      note_file(std::string(rule.target), setting);
      out_.expected.emplace_back(rule.target, *converted.value);
      break;
    case Does::kSpec:
    case Does::kLayout:
      return set_part(rule, *converted.value, setting);
    case Does::kFile:
      return read_config(*converted.value);
    case Does::kGraphs:
      note_graphs(setting);
      return out_.graphs.set(rule.target, *converted.value).in(setting.shown);
    case Does::kIgnore:
      if (!rule.target.empty()) ignore(setting, rule.target);
      break;
    case Does::kClear:
      break;
  }
  return Ok{};
}

Status Translator::apply_rule(const FlagRule& rule, const Setting& setting) {
  if (rule.takes != Takes::kSwitch) {
    if (!setting.value) return invalid(str(setting.shown, " needs a value"));
    return apply_value(rule, setting);
  }
  bool on = true;
  if (setting.value && !parse_option(*setting.value, on))
    return invalid(str(setting.shown, " expects true or false, got ", quoted(*setting.value)));
  // A function of a switch tells why it cannot be on.
  if (on && rule.convert != nullptr) GLINT_TRY_STATUS(rule.convert("true").in(setting.shown));
  if (rule.does == Does::kIgnore) {
    ignore(setting, rule.target);
  } else if (rule.does == Does::kLayout) {
    return set_part(rule, on ? "true" : "false", setting);
  } else if (rule.does == Does::kGraphs) {
    note_graphs(setting);
    return out_.graphs.set(rule.target, on ? "true" : "false");
  } else if (rule.target.find('=') != std::string_view::npos) {
    if (on) target_->push_back(str("--", rule.target));
  } else {
    give(rule.target, on == (rule.does == Does::kSet) ? "true" : "false", setting);
  }
  return Ok{};
}

Status Translator::apply(const Setting& setting) {
  if (const FlagRule* rule = find_rule(setting.name)) {
    if (rule->convert == nullptr) GLINT_TRY_STATUS(check_member(setting.name, setting.shown));
    return apply_rule(*rule, setting);
  }
  const Option* option = find_own(setting.name);
  if (option == nullptr && is_member_of_json(setting.name)) return set_member(setting);
  if (option == nullptr)
    return setting.name.starts_with("no-") ? switch_off(setting) : unknown(setting);
  // Under its own name: a letter is no long option.
  if (setting.value) {
    give(option->name, *setting.value, setting);
  } else {
    target_->push_back("--" + option->name);
  }
  return Ok{};
}

// A member of an option of `glint serve` that takes JSON, beside those that it has.
Status Translator::set_member(const Setting& setting) {
  const std::string group = setting.name.substr(0, setting.name.find('.'));
  const FlagRule* rule = find_rule(group);
  const std::string option(rule != nullptr ? rule->target
                                           : std::string_view(find_own(group)->name));
  Json whole = Json::Object{};
  for (const std::string& arg : *target_) {
    const std::string begin = str("--", option, "=");
    if (!arg.starts_with(begin)) continue;
    GLINT_TRY(whole, parse_json(arg.substr(begin.size())).in("--" + option));
    if (!whole.is_object())
      return invalid(
          str("--", option, " is ", whole.kind(), ", and ", setting.shown, " is a member of it"));
  }
  Json* at = &whole;
  const std::size_t dot = setting.shown.find('.');
  // A key keeps its underscores.
  for (const std::string_view key : split(std::string_view(setting.shown).substr(dot + 1), '.')) {
    if (!at->is_object()) *at = Json::Object{};
    if (at->find(key) == nullptr) at->set(std::string(key), Json());
    at = at->find(key);
  }
  Result<Json> value = parse_json(*setting.value);
  *at = value.ok() ? std::move(value).value() : Json(*setting.value);
  give(option, dump_json(whole), {.name = group, .shown = setting.shown.substr(0, dot)});
  return Ok{};
}

// A flag with several values, of which one that is ignored is told with all.
Status Translator::apply_each(Setting setting, const std::vector<std::string>& values) {
  const FlagRule* rule = find_rule(setting.name);
  const bool is_ignored = rule != nullptr && rule->does == Does::kIgnore;
  setting.value.reset();
  for (const std::string& value : values) {
    setting.value = is_ignored && setting.value ? str(*setting.value, " ", value) : value;
    if (is_ignored) continue;
    GLINT_TRY_STATUS(apply(setting));
    setting.is_further = true;
  }
  return is_ignored && setting.value ? apply(setting) : Ok{};
}

// "--no-x", or "no-x: true" of a file.
Status Translator::switch_off(const Setting& given) {
  const Setting setting = {given.name.substr(3), "false", given.shown, true};
  const FlagRule* rule = find_rule(setting.name);
  const Option* option = find_own(setting.name);
  const bool is_switch =
      rule != nullptr ? rule->takes == Takes::kSwitch : option != nullptr && option->is_flag;
  if (!is_switch) return unknown(given);
  bool off = true;
  if (given.value && !parse_option(*given.value, off))
    return invalid(str(given.shown, " expects true or false, got ", quoted(*given.value)));
  return off ? apply(setting) : Ok{};
}

// Whether some member of a group is not only ignored.
bool Translator::has_meaning(const std::string& group) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const NamedRule& each) {
    const auto& [name, rule] = each;
    const bool is_ignored = rule->does == Does::kIgnore && rule->convert == nullptr;
    return !is_ignored && name.starts_with(group + ".");
  });
}

// The members of the group that `name` names in a file, which may be JSON in a text; null: it names
// none. A number stays: compilation-config may be a level. So does a text that says no less than
// its group: limit-mm-per-prompt may be image=2.
Result<Json> Translator::group_in(const std::string& name, const Json& value,
                                  const std::string& shown) const {
  const FlagRule* rule = find_rule(name);
  const std::string group = name + ".*";
  const bool is_group = rule != nullptr && rule->takes == Takes::kJson &&
                        contains(rule->names, std::string_view(group));
  const std::string text = value.is_string() ? value.as_string() : std::string();
  int level = 0;
  if (!is_group || value.is_number() || parse_option(text, level)) return Json();
  if (value.is_string() && !text.starts_with('{') && !has_meaning(name)) return Json();
  GLINT_TRY(Json members, json_in(text).in(shown));
  if (members.is_object()) return members;
  return invalid(str(shown, " is ", value.kind(), "; expected keys and values"));
}

// `value`, of a file or a flag of JSON: objects are flags of their members, but where an option of
// `glint serve` takes JSON.
Status Translator::apply_members(const std::string& name, const Json& value,
                                 const std::string& shown) {
  if (value.is_null()) return Ok{};
  if (value.is_object() && !takes_json(name)) {
    for (const auto& [key, member] : value.as_object()) {
      const std::string prefix = name.empty() ? "" : name + ".";
      const std::string shown_prefix = shown.empty() ? "" : shown + ".";
      GLINT_TRY_STATUS(apply_members(prefix + with_dashes(key), member, shown_prefix + key));
    }
    return Ok{};
  }
  GLINT_TRY(const Json group, group_in(name, value, shown));
  if (group.is_object()) return apply_members(name, group, shown);
  const FlagRule* rule = find_rule(name);
  const Option* option = rule == nullptr ? find_own(name) : nullptr;
  const bool several =
      (rule != nullptr && rule->takes == Takes::kValues) || (option != nullptr && option->is_list);
  if (value.is_array() && several) {
    std::vector<std::string> values;
    for (const Json& each : value.as_array())
      values.push_back(each.is_string() ? each.as_string() : dump_json(each));
    return apply_each({.name = name, .shown = shown}, values);
  }
  return apply({name, value.is_string() ? value.as_string() : dump_json(value), shown});
}

Status Translator::read_config(const std::string& path) {
  if (target_ == &from_file_) return invalid("a configuration file may not name another");
  GLINT_TRY(const Json file, read_yaml_file(path));
  if (!file.is_object() && !file.is_null())
    return invalid(str(path, ": expected keys and values, got ", file.kind()));
  // TensorRT-LLM's nested options win over its command line; the others' files are defaults.
  for (const auto& [key, value] : file.is_object() ? file.as_object() : Json::Object{}) {
    if (with_dashes(key) == "kv-cache-config" && value.is_object()) file_wins_ = true;
  }
  if (dialect_ == Dialect::kTrtllm) file_wins_ = true;
  target_ = &from_file_;
  path_ = path;
  Status status = apply_members("", file, "");
  target_ = &from_line_;
  return std::move(status).in(path);
}

// A flag and the words that it takes from `rest`.
Status Translator::take(const Setting& given, std::span<const std::string>& rest) {
  Setting setting = given;
  const FlagRule* rule = find_rule(setting.name);
  const Option* option = find_own(setting.name);
  const bool is_member = rule == nullptr && option == nullptr && is_member_of_json(setting.name);
  if (rule == nullptr && option == nullptr && !is_member) return apply(setting);  // --no-x, unknown
  const bool is_switch =
      !is_member && (rule != nullptr ? rule->takes == Takes::kSwitch : option->is_flag);
  const bool is_attached = is_switch || setting.value;  // takes no further word
  if (!is_attached) {
    if (rest.empty()) return invalid(str(setting.shown, " needs a value"));
    setting.value = rest.front();
    rest = rest.subspan(1);
  }
  const bool is_list = rule != nullptr && rule->takes == Takes::kValues &&
                       setting.name.find('.') != setting.name.npos;  // a member's may be JSON
  if (is_list || (rule != nullptr && rule->takes == Takes::kJson)) {
    GLINT_TRY(const Json json, json_in(*setting.value).in(setting.shown));
    if (is_list ? json.is_array() : json.is_object())
      return apply_members(setting.name, json, setting.shown);
  }
  const bool several = rule != nullptr && rule->takes == Takes::kValues;
  // Before MODEL a further word would be that.
  const bool may_be_model = dialect_ == Dialect::kGlint && positional_.empty();
  if (is_attached || !several || may_be_model) return apply(setting);
  std::vector<std::string> values = {*setting.value};
  while (!rest.empty() && !rest.front().starts_with('-')) {
    values.push_back(rest.front());
    rest = rest.subspan(1);
  }
  return apply_each(setting, values);
}

Status Translator::read_line(std::span<const std::string> args) {
  while (!args.empty()) {
    const std::string arg = args.front();
    args = args.subspan(1);
    if (arg == "--") {
      positional_.insert(positional_.end(), args.begin(), args.end());
      break;
    }
    if (arg == "-h" || arg == "--help") {
      from_line_.push_back("--help");
      continue;
    }
    if (!arg.starts_with('-') || arg == "-") {
      positional_.push_back(arg);
      continue;
    }
    const std::size_t equals = arg.find('=');
    Setting setting = {.name = with_dashes(arg.substr(0, equals)), .shown = arg.substr(0, equals)};
    if (equals != std::string::npos) setting.value = arg.substr(equals + 1);
    if (setting.name.starts_with("--")) {
      setting.name.erase(0, 2);
    } else if (find_rule(setting.name) == nullptr) {
      const std::string letter = arg.substr(0, 2);
      const bool is_rule = find_rule(letter) != nullptr;
      // "-O3", "-p8001": a letter and its value.
      if (arg.size() > 2 && (is_rule || find_own(letter.substr(1)) != nullptr))
        setting = {.name = letter, .value = arg.substr(2), .shown = letter};
      if (setting.name.size() == 2 && !is_rule) setting.name.erase(0, 1);  // one of glint's own
    }
    GLINT_TRY_STATUS(take(setting, args));
  }
  return Ok{};
}

// A part of the layout or of speculation, from whichever of line and file wins.
Status Translator::set_part(const FlagRule& rule, const std::string& value,
                            const Setting& setting) {
  const bool is_layout = rule.does == Does::kLayout;
  const bool is_number = rule.target == "tokens" || (is_layout && rule.takes != Takes::kSwitch);
  int number = 0;
  if (is_number && !parse_option(value, number))
    return invalid(str(setting.shown, " expects a number, got ", quoted(value)));
  std::string& part = (is_layout ? layout_ : speculation_)[std::string(rule.target)];
  if (!part.empty() && file_wins_ != (target_ == &from_file_)) return Ok{};
  part = value;
  const std::string name = name_in_errors(rule);
  std::erase_if(out_.named, [&](const NamedSetting& each) { return each.name == name; });
  if (is_layout && target_ == &from_line_ && with_dashes(setting.shown) != name)
    out_.named.push_back({name, setting.shown, ""});
  note_file(name, setting);
  return Ok{};
}

// Settings of the file or of the command line that the other has, too, and wins.
void Translator::forget_overridden() {
  const std::vector<std::string>& winner = file_wins_ ? from_file_ : from_line_;
  std::erase_if(out_.named, [&](const NamedSetting& each) {
    const bool may_lose = each.path.empty() == file_wins_;
    return may_lose && std::any_of(winner.begin(), winner.end(), [&](const std::string& arg) {
             return arg == each.name || arg.starts_with(each.name + "=");
           });
  });
}

Status Translator::finish_parts() {
  // The model as its own draft is its MTP layer.
  const std::vector<std::string>& model = positional_.empty() ? model_of_file_ : positional_;
  const auto draft = speculation_.find("model");
  if (draft != speculation_.end() && contains(model, draft->second)) speculation_.erase(draft);
  GLINT_TRY(const std::vector<std::string> speculation, arguments_of_speculation(speculation_));
  GLINT_TRY(const LayoutArguments layout, arguments_of_layout(dialect_, layout_));
  from_line_.insert(from_line_.end(), speculation.begin(), speculation.end());
  from_line_.insert(from_line_.end(), layout.args.begin(), layout.args.end());
  if (!layout.ignored.empty()) out_.ignored.push_back(layout.ignored);
  out_.headless = layout.headless;
  replicas_ = layout.replicas;
  return Ok{};
}

// The requests at once that were given for each replica, as those of all.
void Translator::count_all_requests() {
  constexpr std::string_view kOption = "--max-num-seqs=";
  const auto last = std::find_if(out_.args.rbegin(), out_.args.rend(),
                                 [&](const std::string& arg) { return arg.starts_with(kOption); });
  if (replicas_ < 2 || last == out_.args.rend()) return;
  const auto each = parse_number<std::int64_t>(last->substr(kOption.size()));
  if (!each || *each >= 1 << 20) return;
  out_.args.push_back(str(kOption, *each * replicas_));
  out_.named.push_back({"--max-num-seqs", str(*each, " for each of ", replicas_, " replicas"), ""});
}

Result<TranslatedArgs> Translator::finish() {
  if (positional_.size() > 1)
    return invalid(str("unexpected argument ", quoted(positional_[1]), ": MODEL is ",
                       quoted(positional_[0]),
                       ", and one server serves one model; leave one out, and give flags of "
                       "several words behind MODEL"));
  forget_overridden();
  if (Status status = finish_parts(); !status.ok())
    return name_setting(std::move(status).take_error(), out_.named);
  std::vector<std::string>& args = out_.args;
  args = positional_.empty() ? model_of_file_ : positional_;
  const auto& first = file_wins_ ? from_line_ : from_file_;
  const auto& last = file_wins_ ? from_file_ : from_line_;
  args.insert(args.end(), first.begin(), first.end());
  args.insert(args.end(), last.begin(), last.end());
  count_all_requests();
  return std::move(out_);
}

}  // namespace

Result<TranslatedArgs> translate_flags(Dialect dialect, std::span<const std::string> args,
                                       OptionList& own) {
  GLINT_TRY_STATUS(own.set_defaults(flags_of(dialect).defaults));
  Translator translator(dialect, own);
  // `trtllm-serve serve DIR`, `sglang serve`, `sglang -m sglang.launch_server`
  for (const std::string_view word : {"-m", "sglang.launch_server", "launch_server", "serve"}) {
    const bool peer =
        dialect == Dialect::kSglang || (dialect == Dialect::kTrtllm && word == "serve");
    if (peer && !args.empty() && args.front() == word) args = args.subspan(1);
  }
  GLINT_TRY_STATUS(translator.read_line(args));
  return translator.finish();
}

Error name_setting(Error error, std::span<const NamedSetting> settings) {
  std::string places;
  for (const NamedSetting& each : settings) {
    const bool in_file = !each.path.empty();
    const bool says_name = mentions(error.message, each.name);
    const bool says_key =
        mentions(error.message, in_file ? "--" + with_dashes(each.key) : each.key);
    if (in_file ? !says_name && !says_key : !says_name || says_key) continue;
    places += str(places.empty() ? "" : ", ", in_file ? "" : "given as ", each.key,
                  in_file ? " in " : "", each.path);
  }
  if (!places.empty()) error.message += " (" + places + ")";
  return error;
}

}  // namespace glint
