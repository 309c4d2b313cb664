"""An agent with a tool, in the standard library: the model asks for the weather, this program says it, the model answers.

    glint serve models/glm5-tiny
    python3 examples/agent.py [URL]
"""
import json
import sys
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"


def get_weather(city):
    """Here a real program would ask a weather service."""
    return {"city": city, "weather": "sunny", "temperature": 21}


TOOLS = {"get_weather": get_weather}
DECLARED = [{
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]},
    },
}]


def complete(messages):
    body = {"messages": messages, "tools": DECLARED, "temperature": 0}
    request = urllib.request.Request(f"{URL}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


messages = [{"role": "user", "content": "What is the weather in Paris?"}]
for _ in range(5):  # an agent that never ends is a bug
    message = complete(messages)
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        # Arguments hold to the tool's schema: the server's grammar sees to that.
        arguments = json.loads(call["function"]["arguments"])
        result = TOOLS[call["function"]["name"]](**arguments)
        print(f"{call['function']['name']}({arguments}) = {result}")
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
print(messages[-1]["content"])
