"""Requests whose grammars take minutes or gigabytes to compile, by name: (path, body)."""


def properties(count, **more):
    return {"type": "object", "properties": {f"{i:x}": {"type": "null"} for i in range(count)}, **more}


def user(**fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, **fields}


def completion(**fields):
    return "/v1/completions", {"prompt": "a", "max_tokens": 4, **fields}


PATTERNS = {"type": "object", "properties": {f"a{i}": {"type": "string", "pattern": "[a-z]{10,4900}"} for i in range(20)}}
EXPRESSION = "(.{0,30}|[a-z]{0,30}.*){0,70}"
PARAMETERS = {"type": "object", "properties": {"value": PATTERNS}, "required": ["value"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}
BOMBS = {
    "an expression": completion(guided_regex=EXPRESSION),
    "properties that are counted": completion(guided_json=properties(300, minProperties=150, maxProperties=200)),
    "patterns": completion(guided_json=PATTERNS),
    "optional parts": completion(guided_grammar="\n".join(
        ["root ::= r0"] + [f"r{i} ::= " + '"a"? ' * 99 + (f"r{i + 1}" if i < 30 else "") for i in range(31)])),
    "long choices": completion(guided_choice=[f"{i}" + "x" * 1000 for i in range(1000)]),
    "a required tool": user(tools=[TOOL], tool_choice="required"),
    "a tool, and a schema": user(tools=[TOOL], response_format={"type": "json_object"}),
    "a structural tag": completion(response_format={"type": "structural_tag", "format": {
        "type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": PATTERNS}, "end": "</a>"}}),
    "an answer to messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "tools": [
        {"name": "g", "input_schema": PARAMETERS}], "tool_choice": {"type": "any"}}),
}
