#!/usr/bin/env bash
# A chat with curl: an answer at once, an answer as it is written, and JSON that holds to a schema.
#   examples/chat.sh [URL]      with `glint serve models/glm5-tiny` running
set -euo pipefail
url=${1:-http://127.0.0.1:8000}

ask() { curl --no-progress-meter --fail-with-body "$url/v1/chat/completions" -H "Content-Type: application/json" -d "$1"; echo; }

ask '{"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}'

ask '{"messages": [{"role": "user", "content": "Write a short poem about a cat and a dog"}], "stream": true, "temperature": 0}'

ask '{"messages": [{"role": "user", "content": "Give me a JSON object for Ada, who is 7 and has a fox."}], "temperature": 0,
  "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": {"type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "animal": {"type": "string"}},
    "required": ["name", "age", "animal"]}}}}'
