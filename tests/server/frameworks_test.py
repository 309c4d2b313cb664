"""Agent frameworks of PyPI against the bundled model: their tools are called, and their answers have the types they ask for.

    frameworks_test.py GLINT MODEL_DIR
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_venv  # noqa: E402

# A folder of their own: what they need of openai and anthropic is not what clients_test.py has.
oracle_venv.enter("openai-agents==0.24.0", "pydantic-ai-slim[openai]==2.38.0", "langchain==1.4.7", "langchain-openai==1.7.3",
                  "instructor==1.17.0", home="frameworks")

# Nothing but the server under test is asked: no traces.
os.environ.update(OPENAI_API_KEY="x", OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false")

import agents  # noqa: E402
import instructor  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
import pydantic_ai  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain.agents.structured_output import ProviderStrategy  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

from served import Served  # noqa: E402

WEATHER = "What is the weather in Paris?"
PERSON = "Give me a JSON object for Mia, who is 12 and has a fox."
MODEL = "glm5-tiny"


class Person(pydantic.BaseModel):
    name: str
    age: int
    animal: str


class Weather:
    """A tool that remembers what it was asked."""

    def __init__(self):
        self.cities = []

    def get_weather(self, city: str) -> str:
        """Get the weather in a city"""
        self.cities.append(city)
        return '{"weather": "sunny", "temperature": 21}'


def openai_agents(url):
    client = openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    for model in (agents.OpenAIChatCompletionsModel(MODEL, client), agents.OpenAIResponsesModel(MODEL, client)):
        for choice in (None, "required"):
            weather = Weather()
            tool = agents.function_tool(weather.get_weather)
            settings = agents.ModelSettings(temperature=0, max_tokens=300, tool_choice=choice)
            agent = agents.Agent(name="a", model=model, tools=[tool], output_type=Person, model_settings=settings)
            # The model may go on asking: that it asked first is what counts.
            try:
                result = agents.Runner.run_sync(agent, WEATHER, max_turns=3)
                assert isinstance(result.final_output, Person), result.final_output
            except agents.MaxTurnsExceeded:
                pass
            assert weather.cities and weather.cities[0] == "Paris", (model, choice, weather.cities)
        agent = agents.Agent(name="a", model=model, output_type=Person,
                             model_settings=agents.ModelSettings(temperature=0, max_tokens=300))
        person = agents.Runner.run_sync(agent, PERSON).final_output
        assert person == Person(name="Mia", age=12, animal="fox"), person


def pydantic_ai_(url):
    provider = OpenAIProvider(base_url=url, api_key="x")
    for model in (OpenAIChatModel(MODEL, provider=provider), OpenAIResponsesModel(MODEL, provider=provider)):
        settings = {"temperature": 0, "max_tokens": 300}
        native = pydantic_ai.NativeOutput(Person)
        weather = Weather()
        agent = pydantic_ai.Agent(model, tools=[weather.get_weather], output_type=native, model_settings=settings)
        try:
            output = agent.run_sync(WEATHER, usage_limits=pydantic_ai.UsageLimits(request_limit=3)).output
            assert isinstance(output, Person), output
        except pydantic_ai.UsageLimitExceeded:
            pass
        assert weather.cities and weather.cities[0] == "Paris", (model, weather.cities)
        person = pydantic_ai.Agent(model, output_type=native, model_settings=settings).run_sync(PERSON).output
        assert person == Person(name="Mia", age=12, animal="fox"), person


def langchain_(url):
    weather = Weather()
    model = ChatOpenAI(base_url=url, api_key="x", model=MODEL, temperature=0, max_tokens=300, max_retries=0)
    agent = create_agent(model, [weather.get_weather], response_format=ProviderStrategy(Person))
    messages = []
    for step in agent.stream({"messages": [("user", WEATHER)]}, {"recursion_limit": 3}, stream_mode="values"):
        messages = step["messages"]
        if weather.cities:
            break
    assert weather.cities == ["Paris"], (weather.cities, messages)
    for method in ("json_schema", "function_calling"):
        answer = model.with_structured_output(Person, method=method).invoke(PERSON)
        assert isinstance(answer, Person), (method, answer)


def instructor_(url):
    client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS, instructor.Mode.RESPONSES_TOOLS):
        person = instructor.from_openai(client, mode=mode).chat.completions.create(
            response_model=Person, model=MODEL, messages=[{"role": "user", "content": PERSON}], temperature=0,
            max_retries=1)
        assert isinstance(person, Person), (mode, person)


def main():
    program, model = sys.argv[1:]
    with Served([program, "serve"], model, "--served-model-name", MODEL) as server:
        for test in (openai_agents, pydantic_ai_, langchain_, instructor_):
            test(server.url + "/v1")
            print(test.__name__.rstrip("_"), "passed", flush=True)
        assert server.end() == 0


main()
