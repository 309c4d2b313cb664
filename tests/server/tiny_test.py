"""`glint serve` with the bundled model, over real sockets: the command lines of the guides as they are, and what only a real
model shows: log-probabilities, grammars, determinism, routed experts, the positions that sparse attention read.

    tiny_test.py GLINT MODEL_DIR [extra arguments of glint serve]
"""
import base64
import concurrent.futures
import json
import math
import re
import struct
import subprocess
import sys

from served import Served


class Glint(Served):
    def post(self, path, **body):
        status, _, answer = self.request(path, body)
        assert status == 200, (path, body, status, answer)
        return answer


def curl_lines_of_the_guides(server, model):
    """The curl lines of three public deployment guides; $MODEL stands for the name or path that each says to fill in."""
    requests = [
        ("/v1/completions", {"model": model, "prompt": "Write a short poem about a cat and a dog", "max_tokens": 256,
                             "temperature": 0.6}),
        ("/v1/completions", {"model": "glm5-tiny", "prompt": "The capital of France is", "max_tokens": 50}),
        ("/v1/chat/completions", {"model": "zai-org/GLM-5-FP8",
                                  "messages": [{"role": "user", "content": "Explain Differential Sparse Attention"}],
                                  "max_tokens": 256})]
    for path, body in requests:
        out = subprocess.run(["curl", "-sS", "-f", server.url + path, "-H", "Content-Type: application/json", "-d",
                              json.dumps(body)], capture_output=True, text=True, check=True)
        answer = json.loads(out.stdout)
        assert answer["usage"]["completion_tokens"] > 0, answer


def greedy_is_the_same_in_every_way(server):
    """Alone, streamed, after a cache hit, in pieces, among others: the same tokens."""
    prompt = "The cat and the dog went to the river, and there they saw"
    body = {"prompt": prompt, "max_tokens": 40, "temperature": 0, "return_token_ids": True}
    alone = server.post("/v1/completions", **body)["choices"][0]
    again = server.post("/v1/completions", **body)["choices"][0]
    assert again["token_ids"] == alone["token_ids"]
    _, _, text = server.request("/v1/completions", {**body, "stream": True})
    chunks = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == alone["text"]
    assert sum((chunk["choices"][0]["token_ids"] for chunk in chunks), []) == alone["token_ids"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        others = [pool.submit(server.post, "/v1/completions", prompt=f"Story {i}: once", max_tokens=30, seed=i)
                  for i in range(12)]
        same = [pool.submit(server.post, "/v1/completions", **body) for _ in range(4)]
        for one in same:
            assert one.result()["choices"][0]["token_ids"] == alone["token_ids"]
        for one in others:
            one.result()


def seeds_decide(server):
    body = {"prompt": "Once upon a time", "max_tokens": 30, "temperature": 1, "seed": 7, "n": 3}
    first, second = (server.post("/v1/completions", **body)["choices"] for _ in range(2))
    texts = [choice["text"] for choice in first]
    assert texts == [choice["text"] for choice in second]
    assert len(set(texts)) > 1, texts


def logprobs_add_up(server):
    body = {"prompt": "The cat", "max_tokens": 5, "temperature": 0, "logprobs": 5, "echo": True}
    logprobs = server.post("/v1/completions", **body)["choices"][0]["logprobs"]
    assert logprobs["token_logprobs"][0] is None
    for value, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:]):
        assert value <= 1e-6 and sum(map(math.exp, top.values())) <= 1.0001 + 1e-3
    # Scoring the sampled tokens as a prompt gives the same logprobs.
    again = server.post("/v1/completions", prompt="".join(logprobs["tokens"]), max_tokens=0, logprobs=0, echo=True)
    scored = again["choices"][0]["logprobs"]
    assert scored["tokens"] == logprobs["tokens"], (scored, logprobs)
    for a, b in zip(scored["token_logprobs"][1:], logprobs["token_logprobs"][1:]):
        assert abs(a - b) < 1e-3, (a, b)
    chat = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}], max_tokens=4,
                       logprobs=True, top_logprobs=3)["choices"][0]["logprobs"]["content"]
    for token in chat:
        assert len(token["top_logprobs"]) == 3 and bytes(token["bytes"]).decode(errors="replace") == token["token"]


def grammars_hold(server):
    age = {"type": "integer", "minimum": 0, "maximum": 120}
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": age},
              "required": ["name", "age"], "additionalProperties": False}
    quiet = {"enable_thinking": False}
    answer = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "A person as JSON."}],
                         max_tokens=200, temperature=1, seed=3, chat_template_kwargs=quiet,
                         response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": schema}})
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "stop", choice
    person = json.loads(choice["message"]["content"])
    assert set(person) == {"name", "age"} and 0 <= person["age"] <= 120, person
    text = server.post("/v1/completions", prompt="x", max_tokens=20, structured_outputs={"choice": ["yes", "no"]})
    assert text["choices"][0]["text"] in ("yes", "no"), text
    text = server.post("/v1/completions", prompt="x", max_tokens=20, guided_regex="[0-9]{3}")
    assert re.fullmatch("[0-9]{3}", text["choices"][0]["text"]), text
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["days"]}}}
    call = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "Weather?"}], tools=[tool],
                       tool_choice="required", parallel_tool_calls=False, max_tokens=100, chat_template_kwargs=quiet,
                       temperature=0)["choices"][0]
    assert call["finish_reason"] == "tool_calls", call
    arguments = json.loads(call["message"]["tool_calls"][0]["function"]["arguments"])
    assert 1 <= arguments["days"] <= 9, arguments
    status, _, body = server.request("/v1/completions", {"prompt": "x", "guided_regex": "(("})
    assert status == 400 and body["error"]["message"], body


def answers_are_calls_or_in_a_format(server):
    """With tools and a format the model decides, in every dialect: it calls, or it answers in the format."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    name = {"type": "string", "maxLength": 12}
    person = {"type": "object", "properties": {"name": name, "age": {"type": "integer"}, "animal": name},
              "required": ["name", "age", "animal"], "additionalProperties": False}
    about = {"name": "get_weather", "description": "Get the weather in a city"}

    def chat(question):
        message = server.post(
            "/v1/chat/completions", messages=[{"role": "user", "content": question}], temperature=0, max_tokens=300,
            tools=[{"type": "function", "function": {**about, "parameters": city}}],
            response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": person}})["choices"][0]["message"]
        return [call["function"]["name"] for call in message.get("tool_calls") or []], message["content"]

    def responses(question):
        output = server.post("/v1/responses", input=question, temperature=0, max_output_tokens=300,
                             tools=[{"type": "function", **about, "parameters": city}],
                             text={"format": {"type": "json_schema", "name": "p", "schema": person}})["output"]
        texts = [item["content"][0]["text"] for item in output if item["type"] == "message"]
        return [item["name"] for item in output if item["type"] == "function_call"], "".join(texts)

    def messages(question):
        content = server.post("/v1/messages", model="glm5-tiny", temperature=0, max_tokens=300,
                              messages=[{"role": "user", "content": question}], tools=[{**about, "input_schema": city}],
                              output_config={"format": {"type": "json_schema", "schema": person}})["content"]
        texts = [block["text"] for block in content if block["type"] == "text"]
        return [block["name"] for block in content if block["type"] == "tool_use"], "".join(texts)

    for ask in (chat, responses, messages):
        calls, text = ask("What is the weather in Paris?")
        assert calls == ["get_weather"] and not text, (ask.__name__, calls, text)
        calls, text = ask("Give me a JSON object for Mia, who is 12 and has a fox.")
        assert not calls and set(json.loads(text)) == {"name", "age", "animal"}, (ask.__name__, calls, text)


def a_thought_has_a_budget(server):
    """By each name that clients have for it: the thought ends after so many tokens, and an answer follows."""
    def ask(**fields):
        return server.post("/v1/chat/completions", messages=[{"role": "user", "content": "What is the capital of France?"}],
                           temperature=0, **fields)["choices"][0]["message"]

    whole = ask()
    for fields in ({"thinking_token_budget": 3}, {"thinking_budget": 3}, {"thinking": {"type": "enabled", "budget_tokens": 3}},
                   {"reasoning": {"max_tokens": 3}}):
        cut = ask(**fields)
        assert cut["reasoning"] != whole["reasoning"] and whole["reasoning"].startswith(cut["reasoning"]), (fields, cut)
        assert "Paris" in cut["content"], (fields, cut)
    prompt = server.post("/apply-template", messages=[{"role": "user", "content": "What is the capital of France?"}])["prompt"]
    assert prompt.endswith("<think>"), prompt
    end = server.post("/tokenize", prompt="</think>", add_special_tokens=False)["tokens"]
    text = server.post("/v1/completions", prompt=prompt, thinking_token_budget=3, temperature=0, max_tokens=9,
                       skip_special_tokens=False, return_token_ids=True)["choices"][0]
    ids = server.post("/generate", text=prompt, sampling_params={"thinking_budget": 3, "temperature": 0,
                                                                 "max_new_tokens": 9})["output_ids"]
    assert text["token_ids"][3:4] == ids[3:4] == end, (text, ids, end)


def numbers_for_training(server):
    ids = server.post("/tokenize", prompt="The quick brown fox")["tokens"]
    out = server.post("/generate", input_ids=ids, return_logprob=True, logprob_start_len=0, return_routed_experts=True,
                      sampling_params={"max_new_tokens": 6, "temperature": 0, "ignore_eos": True})
    meta = out["meta_info"]
    assert len(out["output_ids"]) == len(meta["output_token_logprobs"]) == 6
    assert len(meta["input_token_logprobs"]) == len(ids) and meta["input_token_logprobs"][0][0] is None
    rows, layers, experts = meta["routed_experts_shape"]
    data = base64.b64decode(meta["routed_experts"])
    chosen = struct.unpack(f"<{len(data) // 4}i", data)
    # The last token is never run; every other one is, once.
    assert (rows, layers, experts) == (len(ids) + 5, 5, 4), meta["routed_experts_shape"]
    assert len(chosen) == rows * layers * experts and all(0 <= expert < 16 for expert in chosen)
    first = [chosen[row * layers * experts:][:experts] for row in range(rows)]
    assert all(dense == (0, 0, 0, 0) for dense in first), first


def what_the_engine_page_reads(server):
    state = server.request("/engine")[2]
    load = state["expert_load"]
    assert load["layers"] == [1, 2, 3, 4] and all(len(row) == 16 and sum(row) > 0 for row in load["tokens"]), load
    ids = server.post("/tokenize", prompt="one two three four five six seven")["tokens"]
    keys = server.post("/engine/selected_keys", tokens=ids, position=4)
    assert keys["position"] == 4 and [key["position"] for key in keys["keys"]] == [0, 1, 2, 3, 4], keys
    long = ids * 90
    keys = server.post("/engine/selected_keys", tokens=long)["keys"]
    assert all(0 <= key["position"] < len(long) and 1 <= key["num_layers"] <= 5 for key in keys)
    assert sum(key["num_layers"] for key in keys) == 5 * 256, keys  # index_topk in each layer


def the_server_is_ruled(server):
    assert server.post("/flush_cache")["success"]
    assert server.post("/pause_generation")["success"] and server.post("/continue_generation")["success"]
    status, _, body = server.request("/update_weights_from_disk", {"model_path": "/nowhere"})
    assert status in (400, 404), body
    metrics = server.request("/metrics")[2]
    assert re.search(r"^vllm:generation_tokens_total\{[^}]*\} [1-9]", metrics, re.M), metrics
    assert server.request("/v1/models/zai-org/GLM-5-FP8")[0] == 200
    assert server.request("/v1/models/other")[0] == 404


def main():
    program, model, *extra = sys.argv[1:]
    with Glint([program, "serve"], model, "--served-model-name", "glm5-tiny", "--served-model-name", "zai-org/GLM-5-FP8",
               *extra) as server:
        curl_lines_of_the_guides(server, model)
        for test in (greedy_is_the_same_in_every_way, seeds_decide, logprobs_add_up, grammars_hold,
                     answers_are_calls_or_in_a_format, a_thought_has_a_budget,
                     numbers_for_training, what_the_engine_page_reads, the_server_is_ruled):
            test(server)
            print(test.__name__, "passed", flush=True)
        assert server.end() == 0


main()
