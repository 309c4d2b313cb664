# docker build -t glint . && docker run --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface -p 8000:8000 glint --model zai-org/GLM-5-FP8
# The arguments are vLLM's; `docker run --entrypoint sglang ...` or `--entrypoint trtllm-serve ...` speak the others' command lines.
FROM debian:12-slim AS build
WORKDIR /src
COPY . .
RUN tools/package.sh deb

FROM debian:12-slim
COPY --from=build /src/dist/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates /tmp/*.deb && rm -rf /var/lib/apt/lists/* /tmp/*.deb
COPY --from=build /src/build/deps/nccl-2.28.9/lib/libnccl.so.2 /usr/lib/x86_64-linux-gnu/
ENV HF_HOME=/root/.cache/huggingface NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 8000
ENTRYPOINT ["vllm", "serve"]
