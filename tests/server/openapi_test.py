"""/openapi.json is true: requests made at random from its schemas never give a 5xx, and every path that it names is there.

    openapi_test.py SCRIPTED_SERVER MODEL_DIR [REQUESTS_PER_OPERATION]
"""
import json
import random
import sys

from scripted import Scripted

TEXTS = ["", "a", "SAY:hello", "\u20ac\u00e9\U0001f600", "glm5-tiny", "user", "assistant", "tool", "text", "\x00\n\"",
         "x" * 300, "function", "auto", "none", "<think>", "</think>", "<tool_call>"]
NUMBERS = [0, 1, -1, 2, 0.5, 1e300, -1e300, 3655, 2**31, 2**63, 1e-300, 100]


def anything(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind == 2:
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return rng.choice(TEXTS)
    if kind == 5:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS + ["type", "role", "content", "name"]): anything(rng, depth + 1)
            for _ in range(rng.randrange(4))}


def generate(rng, schema, wild):
    """A value of `schema`; with probability `wild` at each place, any value."""
    if rng.random() < wild:
        return anything(rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return generate(rng, rng.choice(schema["anyOf"]), wild)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind) if kind else None
    if kind == "object" or "properties" in schema:
        required = schema.get("required", [])
        return {name: generate(rng, inner, wild) for name, inner in schema.get("properties", {}).items()
                if name in required or rng.random() < 0.15}
    if kind == "array":
        low, high = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
        return [generate(rng, schema.get("items", {}), wild) for _ in range(rng.randint(low, max(low, high)))]
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        return min(max(rng.choice([0, 1, 2, 5, 20]), schema.get("minimum", 0)), schema.get("maximum", 20))
    if kind == "number":
        return rng.uniform(max(schema.get("minimum", -2), -2), min(schema.get("maximum", 2), 2))
    return anything(rng)


def main():
    program, model = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    seen = {}
    with Scripted(program, model) as server:
        status, body = server.request("GET", "/openapi.json")
        assert status == 200
        api = json.loads(body)
        operations = [(path, method, operation) for path, methods in api["paths"].items()
                      for method, operation in methods.items()]
        assert len(operations) > 30, len(operations)
        rng = random.Random(1)
        for path, method, operation in operations:
            if path == "/pause_generation":
                continue  # what follows would wait for ever
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            for i in range(count if schema else 2):
                body = generate(rng, schema, 0 if i < count // 2 else 0.05) if schema else None
                if isinstance(body, dict) and schema["properties"].get("max_tokens"):
                    body.setdefault("max_tokens", 5)
                if schema is None and method == "post":
                    body = b""
                status, answer = server.request(method.upper(), path.replace("{id}", "glm5-tiny"), body)
                assert status < 500, (method, path, body, status, answer)
                assert status not in (404, 405) or b"model" in answer, (method, path, body, answer)
                seen[status] = seen.get(status, 0) + 1
                if status >= 400:
                    json.loads(answer)
        status, _ = server.request("GET", "/health")
        assert status == 200
    assert seen.get(200, 0) > 50 and seen.get(400, 0) > 50, seen
    print("openapi: passed", seen)


main()
