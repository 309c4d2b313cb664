#!/usr/bin/env bash
# Tries the packages of dist/ (tools/package.sh) where nothing is installed: in roots of a bare Debian 12. The tarball runs as it
# is, the .deb installs and goes without a trace, its unit serves under a systemd of its own, and the last stage of the
# Dockerfile, step by step, gives a server that answers to vLLM's command line. Needs root, and the network for debootstrap
# and apt; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
((EUID == 0)) || { echo "tools/package_test.sh: run it as root: it makes roots and enters them" >&2; exit 2; }
for tool in debootstrap ip curl systemd-nspawn; do
  command -v "$tool" >/dev/null ||
    { echo "tools/package_test.sh: $tool is missing: apt-get install debootstrap iproute2 curl systemd-container" >&2; exit 2; }
done
shopt -s nullglob
debs=(dist/*.deb) tars=(dist/*.tar.gz)
[[ ${#debs[@]} == 1 && ${#tars[@]} == 1 ]] ||
  { echo "tools/package_test.sh: dist/ holds ${#debs[@]} .deb and ${#tars[@]} .tar.gz, expected one of each: tools/package.sh" >&2; exit 2; }

bare=build/debian12
if [[ ! -e $bare ]]; then
  rm -rf "$bare.part"
  debootstrap --variant=minbase bookworm "$bare.part" >&2
  mv "$bare.part" "$bare"
fi
work=$(mktemp -d build/package-test.XXXXXX)
container=
trap '[[ -z $container ]] || kill "$container" 2>/dev/null || true; rm -rf "$work"' EXIT
root=$work/root

fresh_root() {
  rm -rf "$root"
  cp -a "$bare" "$root"
  cp /etc/resolv.conf "$root/etc/"
}

# in_root COMMAND...: in the root, with a /proc of its own, whose processes end with it.
in_root() {
  unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" env -i HOME=/root \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

fail() {
  echo "tools/package_test.sh: $1" >&2
  exit 1
}

answers() { # answers PROGRAM: it knows a capital
  [[ $(in_root "$1" generate /model -p "The capital of France is" --max-tokens 4) == *Paris* ]] || fail "$1 does not answer"
}

echo "== the tarball"
fresh_root
cp -r models/glm5-tiny "$root/model"
tar -xzf "${tars[0]}" -C "$root/opt"
program=/opt/$(basename "${tars[0]}" .tar.gz)/bin/glint
answers "$program"
[[ $(echo "$root$(dirname "$program")"/*) == "$root$program" ]] || fail "the tarball holds more commands than glint"

echo "== the .deb"
fresh_root
cp -r models/glm5-tiny "$root/model"
cp "${debs[0]}" "$root/tmp/glint.deb"
in_root sh -ec 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /tmp/glint.deb' \
  >"$work/log" 2>&1 || { cat "$work/log" && fail "the .deb does not install"; }
answers glint
for name in vllm sglang trtllm-serve; do
  [[ $(in_root "$name" serve --help) == "glint $name"* ]] || fail "$name does not speak its command line"
done
in_root dpkg --purge glint >/dev/null
[[ -z $(in_root sh -c 'ls -d /usr/bin/glint /usr/bin/vllm /usr/share/doc/glint /lib/systemd/system/glint.service 2>/dev/null') ]] ||
  fail "dpkg --purge leaves files of glint"

capital() { # capital MODEL: asks the server at port 8000
  curl -sS --fail --retry 120 --retry-delay 1 --retry-connrefused --max-time 300 http://127.0.0.1:8000/v1/completions \
    -H "Content-Type: application/json" -d "{\"model\": \"$1\", \"prompt\": \"The capital of France is\", \"max_tokens\": 4, \"temperature\": 0}"
}
export -f capital

echo "== the service"
fresh_root
cp -r models/glm5-tiny "$root/srv/model"
cp "${debs[0]}" "$root/tmp/glint.deb"
in_root DEBIAN_FRONTEND=noninteractive sh -ec 'apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd-sysv /tmp/glint.deb
  install -d /etc/glint && printf "model: /srv/model\n" >/etc/glint/serve.yaml && systemctl enable glint' \
  >"$work/log" 2>&1 || { cat "$work/log" && fail "the .deb does not install beside systemd"; }
systemd-nspawn --directory="$root" --boot --private-network --register=no --keep-unit </dev/null >"$work/log" 2>&1 &
container=$!
sleep 5
leader=$(pgrep --parent "$container") || { cat "$work/log" && fail "no systemd starts in a container here"; }
in_service() { nsenter --target "$leader" --all "$@"; }
answer=$(nsenter --target "$leader" --net bash -c 'capital model' 2>/dev/null) || true
[[ $answer == *Paris* ]] || { in_service journalctl --no-pager --unit glint && fail "the service does not answer: $answer"; }
in_service sh -ec 'touch /dev/nvidia0; ls "/proc/$(systemctl show --property MainPID --value glint)/root/dev/nvidia0"' >/dev/null ||
  fail "the service does not see the files of GPUs"
in_service systemctl stop glint
[[ $(in_service systemctl show --property Result,ExecMainStatus --value glint | xargs) == "success 0" ]] || fail "the service does not end well"
in_service systemctl poweroff >/dev/null 2>&1 || true
wait "$container" || true
container=

echo "== the image"
fresh_root
environment=() entrypoint=()
while IFS= read -r line; do
  rest=${line#* }
  case $line in
  RUN\ *) in_root DEBIAN_FRONTEND=noninteractive sh -ec "$rest" >"$work/log" 2>&1 || { cat "$work/log" && fail "does not run: $rest"; } ;;
  "COPY --from=build /src/"*)
    read -r _ from to <<<"$rest"
    # shellcheck disable=SC2086
    cp ${from#/src/} "$root$to"
    ;;
  ENV\ *) environment+=("$rest") ;;
  ENTRYPOINT\ *) mapfile -t entrypoint < <(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$rest") ;;
  EXPOSE\ * | "") ;;
  *) fail "a step of the Dockerfile that this test does not know: $line" ;;
  esac
done < <(awk '/^FROM / { lines = ""; next } { lines = lines $0 "\n" } END { printf "%s", lines }' Dockerfile)

snapshot=$root/root/.cache/huggingface/hub/models--zai-org--GLM-5-FP8
mkdir -p "$snapshot/snapshots" "$snapshot/refs"
cp -r models/glm5-tiny "$snapshot/snapshots/0123abcd"
printf 0123abcd >"$snapshot/refs/main"
# In a network of its own, where it listens as it will in a container, among processes that end with this one.
serve() {
  ip link set lo up
  in_root "${environment[@]}" "${entrypoint[@]}" --model zai-org/GLM-5-FP8 --tensor-parallel-size 8 --max-model-len 4096 \
    --gpu-memory-utilization 0.90 --trust-remote-code >"$work/log" 2>&1 &
  capital zai-org/GLM-5-FP8
}
export -f serve in_root
answer=$(root=$root work=$work environment="${environment[*]}" entrypoint="${entrypoint[*]}" unshare --net --pid --fork --kill-child bash -ec \
  'read -ra environment <<<"$environment"; read -ra entrypoint <<<"$entrypoint"; serve 2>/dev/null') || { cat "$work/log" && fail "the image does not serve"; }
[[ $answer == *Paris* ]] || fail "the image answers $answer"
grep -q 'http://0.0.0.0:8000' "$work/log" || fail "the image does not listen on 0.0.0.0:8000: $(cat "$work/log")"
echo "passed"
