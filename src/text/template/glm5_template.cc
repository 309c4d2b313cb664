#include "text/template/glm5_template.h"

namespace glint {
namespace {

constexpr std::string_view kTemplate =
    R"jinja({#- Chat layout of GLM-5. Role tags are special tokens; a turn ends where the next tag begins. -#}
{%- macro plain(content) -%}
  {%- if content is string -%}{{ content }}
  {%- elif content is mapping or content is not iterable -%}{{ content }}
  {%- else -%}
    {%- for part in content -%}
      {%- if part is string -%}{{ part }}
      {%- elif part is mapping and part.type == 'text' -%}{{ part.text }}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}
{%- set keep_thinking = clear_thinking is defined and not clear_thinking -%}
{%- set last = namespace(user=-1) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{{- '[gMASK]<sop>' -}}
{%- if tools -%}
  {{- '<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' -}}
  {{- 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n' -}}
  {%- for tool in tools -%}{{- tool | tojson(ensure_ascii=False) + '\n' -}}{%- endfor -%}
  {{- '</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n' -}}
  {{- '<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>' -}}
  {{- '<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}
    {{- '<|user|>' + plain(message.content) -}}
  {%- elif message.role == 'system' -%}
    {{- '<|system|>' + plain(message.content) -}}
  {%- elif message.role == 'assistant' -%}
    {%- set thinking, answer = '', plain(message.content) -%}
    {%- if message.reasoning_content is string -%}
      {%- set thinking = message.reasoning_content -%}
    {%- elif '</think>' in answer -%}
      {%- set thinking = answer.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}
      {%- set answer = answer.split('</think>')[-1].lstrip('\n') -%}
    {%- endif -%}
    {{- '<|assistant|>' -}}
    {%- if thinking and (keep_thinking or loop.index0 > last.user) -%}
      {{- '<think>' + thinking.strip() + '</think>' -}}
    {%- else -%}
      {{- '</think>' -}}
    {%- endif -%}
    {{- answer.strip() -}}
    {%- for call in message.tool_calls or [] -%}
      {%- set call = call.function or call -%}
      {{- '<tool_call>' + call.name -}}
      {%- for key, value in call.arguments.items() -%}
        {{- '<arg_key>' + key + '</arg_key><arg_value>' -}}
        {{- value if value is string else value | tojson(ensure_ascii=False) -}}
        {{- '</arg_value>' -}}
      {%- endfor -%}
      {{- '</tool_call>' -}}
    {%- endfor -%}
  {%- elif message.role == 'tool' -%}
    {%- if message.content is not string or loop.first or messages[loop.index0 - 1].role != 'tool' -%}
      {{- '<|observation|>' -}}
    {%- endif -%}
    {%- for result in ([message.content] if message.content is string else message.content) -%}
      {%- set result = result.output if result is mapping and result.output is defined else result -%}
      {{- '<tool_response>' -}}{{- result -}}{{- '</tool_response>' -}}
    {%- endfor -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|assistant|>' + ('</think>' if enable_thinking is defined and not enable_thinking else '<think>') -}}
{%- endif -%}
)jinja";

}  // namespace

std::string_view glm5_template() { return kTemplate; }

}  // namespace glint
