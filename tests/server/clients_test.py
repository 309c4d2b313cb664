"""The `openai` and `anthropic` clients of PyPI against the server: what they parse is what was said.

    clients_test.py SCRIPTED_SERVER MODEL_DIR
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_venv  # noqa: E402

oracle_venv.enter("openai==3.54.0", "anthropic==2.12.0")

import anthropic  # noqa: E402
import openai  # noqa: E402

from scripted import Scripted  # noqa: E402

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
           "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": WEATHER}}
CALL = ("I should look.</think>One moment.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
        "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>")


def user(text):
    return [{"role": "user", "content": "SAY:" + text}]


def chat(client):
    answer = client.chat.completions.create(model="glm5-tiny", messages=user("Hm.</think>It is four."))
    message = answer.choices[0].message
    assert message.content == "It is four.", message
    assert message.reasoning_content == "Hm.", message
    assert answer.choices[0].finish_reason == "stop"
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details.reasoning_tokens > 0
    assert usage.prompt_tokens_details.cached_tokens >= 0


def chat_stream(client):
    stream = client.chat.completions.create(model="glm5-tiny", messages=user("Hm.</think>It is four."), stream=True,
                                            stream_options={"include_usage": True})
    content, reasoning, usage, finish = "", "", None, None
    for chunk in stream:
        if chunk.usage:
            assert not chunk.choices
            usage = chunk.usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
    assert (content, reasoning, finish) == ("It is four.", "Hm.", "stop")
    assert usage.completion_tokens > 0


def chat_tools(client):
    answer = client.chat.completions.create(model="glm5-tiny", messages=user(CALL), tools=[TOOL])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Paris", "days": 2}
    # The whole conversation goes back, with the result.
    messages = user(CALL) + [choice.message.model_dump(exclude_none=True),
                             {"role": "tool", "tool_call_id": call.id, "content": "SAY:ok</think>Sunny."}]
    again = client.chat.completions.create(model="glm5-tiny", messages=messages, tools=[TOOL])
    assert again.choices[0].message.content.startswith("Sunny."), again


def chat_stream_helper(client):
    with client.chat.completions.stream(model="glm5-tiny", messages=user(CALL), tools=[TOOL]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"city": "Paris", "days": 2}


def completions(client):
    answer = client.completions.create(model="glm5-tiny", prompt=["SAY:one", "SAY:two"], max_tokens=20)
    assert [choice.text for choice in answer.choices] == ["one", "two"], answer
    stream = client.completions.create(model="glm5-tiny", prompt="SAY:one two three", max_tokens=20, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "one two three"


def responses(client):
    answer = client.responses.create(model="glm5-tiny", input="SAY:Hm.</think>It is four.")
    assert answer.output_text == "It is four.", answer
    assert answer.status == "completed"
    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}
    kinds, text = [], ""
    final = None
    for event in client.responses.create(model="glm5-tiny", input="SAY:" + CALL, tools=[tool], stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            final = event.response
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
    assert text == "One moment.", text
    call = [item for item in final.output if item.type == "function_call"][0]
    assert json.loads(call.arguments) == {"city": "Paris", "days": 2}
    with client.responses.stream(model="glm5-tiny", input="SAY:</think>Fine.") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "Fine."


def errors(client):
    for call, expected in [
        (lambda: client.chat.completions.create(model="gpt-5", messages=user("x")), openai.NotFoundError),
        (lambda: client.chat.completions.create(model="glm5-tiny", messages=[]), openai.BadRequestError),
        (lambda: client.chat.completions.create(model="glm5-tiny", messages=user("x"), temperature=-1),
         openai.BadRequestError),
        (lambda: client.completions.create(model="glm5-tiny", prompt="x", max_tokens=99999), openai.BadRequestError),
    ]:
        try:
            call()
        except expected as error:
            assert error.body["message"], error
        else:
            raise AssertionError(f"{expected} was not raised")


def models(client):
    assert [model.id for model in client.models.list()] == ["glm5-tiny"]
    assert client.models.retrieve("glm5-tiny").id == "glm5-tiny"


def messages(client):
    answer = client.messages.create(model="glm5-tiny", max_tokens=200, messages=user("It is four."))
    assert answer.content[0].text == "It is four.", answer
    assert answer.stop_reason == "end_turn" and answer.usage.output_tokens > 0
    thinking = client.messages.create(model="glm5-tiny", max_tokens=2000, messages=user("Hm.</think>It is four."),
                                      thinking={"type": "enabled", "budget_tokens": 1024})
    assert [block.type for block in thinking.content] == ["thinking", "text"], thinking
    assert client.messages.count_tokens(model="glm5-tiny", messages=user("x")).input_tokens > 3


def messages_stream(client):
    tool = {"name": "get_weather", "description": "Weather.", "input_schema": WEATHER}
    with client.messages.stream(model="glm5-tiny", max_tokens=2000, messages=user(CALL), tools=[tool],
                                thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        for _ in stream:
            pass
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"], final
    assert final.content[2].input == {"city": "Paris", "days": 2}
    assert final.stop_reason == "tool_use"
    # The result goes back.
    history = user(CALL) + [
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in final.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": final.content[2].id,
                                      "content": "SAY:Sunny."}]}]
    again = client.messages.create(model="glm5-tiny", max_tokens=200, messages=history, tools=[tool])
    assert again.content[0].text.startswith("Sunny."), again


def anthropic_errors(client):
    try:
        client.messages.create(model="claude", max_tokens=9, messages=user("x"))
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
    else:
        raise AssertionError("an unknown model was accepted")


def main():
    program, model = sys.argv[1:]
    with Scripted(program, model, "--api-key", "secret") as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="secret", max_retries=0)
        for test in (chat, chat_stream, chat_tools, chat_stream_helper, completions, responses, errors, models):
            test(client)
        client = anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0)
        for test in (messages, messages_stream, anthropic_errors):
            test(client)
        try:
            openai.OpenAI(base_url=server.url + "/v1", api_key="wrong", max_retries=0).models.list()
        except openai.AuthenticationError:
            pass
        else:
            raise AssertionError("a wrong key was accepted")
    print("clients: passed")


main()
