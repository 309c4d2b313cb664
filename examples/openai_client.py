"""A chat with OpenAI's client: `pip install openai`, `glint serve models/glm5-tiny`, then

    python3 examples/openai_client.py [URL]
"""
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
client = OpenAI(base_url=f"{url}/v1", api_key="none")
model = client.models.list().data[0].id

stream = client.chat.completions.create(
    model=model, stream=True, temperature=0,
    messages=[{"role": "user", "content": "What is 357 + 286?"}])
for chunk in stream:
    if not chunk.choices:
        continue
    delta = chunk.choices[0].delta
    # The model's thoughts come in a field of their own, which the client's types do not name.
    thought = getattr(delta, "reasoning_content", None)
    if thought:
        print(f"\033[2m{thought}\033[0m", end="", flush=True)
    if delta.content:
        print(delta.content, end="", flush=True)
print()
