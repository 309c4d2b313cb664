// The grammar of tool calls in GLM's own format, from the functions' schemas:
//
//   <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>
//
// with the arguments in the order of the schema, those that are not required left out at will. A
// value that is a string is its bare text; any other is JSON. The reverse of
// text/answer/tool_parser.h.
#pragma once

#include <functional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/answer/delta_parser.h"

namespace glint {

struct ToolCallRules {
  bool at_least_one = true;  // else text, in which calls may come
  bool parallel = true;      // more than one
};

// The grammar of calls, as a structural tag of xgrammar's. Fails naming the function and what
// cannot be expressed.
Result<Json> tool_call_grammar(const std::vector<ToolSpec>& tools, const ToolCallRules& rules);

// The function with schemas that can be expressed: of an argument whose own cannot, the types alone
// are kept; those whose name no call can hold are left out.
ToolSpec loosened_tool(const ToolSpec& tool,
                       const std::function<bool(const ToolSpec&)>& can_be_expressed);

}  // namespace glint
