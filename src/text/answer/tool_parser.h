// ToolParser: one tool call after another in GLM's format,
//
//   <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>
//
// as pieces of JSON. A value that can only be a string streams as it comes; any other waits for its
// end. So the pieces together are the same text whatever the pieces of the input were, and no text
// is looked at more than twice. A marker in a string of an object or list is a part of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/answer/delta_parser.h"
#include "text/answer/text_finder.h"
#include "text/answer/tool_typing.h"

namespace glint {

inline constexpr std::string_view kToolMarkers[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                                    "</arg_key>",  "<arg_value>",  "</arg_value>"};

class ToolParser {
 public:
  // `tools` must outlive this. Calls of functions that are not among them are dropped, if there are
  // any.
  explicit ToolParser(const std::vector<ToolSpec>& tools);

  // After <tool_call>.
  void begin();

  // Reads text up to the end of the call, and says how many bytes that was.
  std::size_t feed(std::string_view text, std::vector<Delta>& deltas);

  bool in_call() const { return state_ != State::kOutside; }

  // The answer ended. A call that has arguments is closed to valid JSON; or it goes on with the
  // text that is returned: a string had no end, so that the marker in it was one. Not where
  // `is_cut`: more of the string was to come.
  std::string finish(std::vector<Delta>& deltas, bool is_cut = false);

  int num_calls() const { return num_calls_; }  // that were reported

 private:
  enum class State { kOutside, kName, kBetween, kKey, kAfterKey, kValue };

  void take(std::string_view text, std::vector<Delta>& deltas);
  void follow_json(std::string_view text);
  bool on_marker(int marker, std::vector<Delta>& deltas);
  void end_name(std::vector<Delta>& deltas);
  std::string known_name() const;
  void begin_value(std::vector<Delta>& deltas);
  void end_value(std::vector<Delta>& deltas);
  void end_call(std::vector<Delta>& deltas);
  void arguments(std::string json, std::vector<Delta>& deltas);

  std::unordered_map<std::string_view, const ToolSpec*> by_name_;
  std::unordered_map<std::string_view, std::unique_ptr<ToolTyping>> typings_;
  TextFinder finder_;
  State state_ = State::kOutside;
  std::string held_;  // may be the beginning of a marker
  std::string text_;  // the name, key or value so far
  std::string key_;   // as JSON, with what stands before it
  int num_calls_ = 0;
  bool reported_ = false;  // the call is
  bool has_arguments_ = false;
  bool streams_ = false;  // the value is a string
  struct {
    bool is_trusted = true;  // its strings end
    bool may_come = false, has_begun = false, in_string = false, is_escaped = false;
  } json_;  // the value, if it can only be an object, a list or what has no markers
  ToolTyping* typing_ = nullptr;  // of the function; null: all arguments are strings
  const Json* schema_ = nullptr;  // of the argument
};

}  // namespace glint
