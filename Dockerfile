# docker build -t glint . && docker run -v ~/.cache/huggingface:/root/.cache/huggingface -p 8000:8000 glint --model zai-org/GLM-5-FP8
# The arguments are vLLM's; `docker run --entrypoint sglang ...` or `--entrypoint trtllm-serve ...` speak the others' command lines.
FROM debian:12-slim AS build
WORKDIR /src
COPY . .
RUN tools/package.sh deb

FROM debian:12-slim
COPY --from=build /src/dist/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates /tmp/*.deb && rm -rf /var/lib/apt/lists/* /tmp/*.deb
ENV HF_HOME=/root/.cache/huggingface
EXPOSE 8000
ENTRYPOINT ["vllm", "serve"]
