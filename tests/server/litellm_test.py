"""litellm of PyPI against the bundled model, as a server of OpenAI's API, of vLLM and of Anthropic's.

    litellm_test.py GLINT MODEL_DIR
"""
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_venv  # noqa: E402

# A folder of its own: what it needs is not what the frameworks of frameworks_test.py need.
# (Its calls with tools import mcp, which it does not ask for.)
oracle_venv.enter("litellm==1.106.2", "mcp==2.3.0", home="litellm")

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing but the server under test is asked

import litellm  # noqa: E402
import pydantic  # noqa: E402

from served import Served  # noqa: E402

litellm.suppress_debug_info = True
MODEL = "glm5-tiny"
WEATHER = "What is the weather in Paris?"
PERSON = "Give me a JSON object for Mia, who is 12 and has a fox."
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


class Person(pydantic.BaseModel):
    name: str
    age: int
    animal: str


def ask(provider, url, text, **fields):
    return litellm.completion(model=f"{provider}/{MODEL}", api_base=url, api_key="x", temperature=0, max_tokens=300, num_retries=0,
                              messages=[{"role": "user", "content": text}], **fields)


def check_provider(provider, url):
    choice = ask(provider, url, WEATHER, tools=[TOOL]).choices[0]
    call = choice.message.tool_calls[0].function
    assert choice.finish_reason == "tool_calls" and call.name == "get_weather", (provider, choice)
    assert json.loads(call.arguments) == {"city": "Paris"}, (provider, call)
    whole = ask(provider, url, PERSON)
    built = litellm.stream_chunk_builder(list(ask(provider, url, PERSON, stream=True)))
    assert built.choices[0].message.content == whole.choices[0].message.content, (provider, built, whole)
    assert whole.usage.completion_tokens > 0, (provider, whole.usage)


def main():
    program, model = sys.argv[1:]
    with Served([program, "serve"], model, "--served-model-name", MODEL) as server:
        api = server.url + "/v1"
        for provider, url in (("openai", api), ("hosted_vllm", api), ("anthropic", server.url)):
            check_provider(provider, url)
            print(provider, "passed", flush=True)
        answer = ask("openai", api, PERSON, response_format=Person).choices[0].message.content
        person = Person.model_validate_json(answer)
        assert person == Person(name="Mia", age=12, animal="fox"), person
        try:
            raise AssertionError(ask("openai", api, "word " * 5000))
        except litellm.ContextWindowExceededError:
            pass
        assert server.end() == 0


main()
