#!/usr/bin/env bash
# Installs what a build of glint needs and this machine lacks: Debian packages, with sudo only when not root.
# Asks nothing. Running it again costs a fraction of a second.
set -euo pipefail
packages=(g++ cmake ninja-build ccache git ca-certificates python3 python3-pip python3-venv pkg-config
  libboost1.81-dev libboost-json1.81-dev libspdlog-dev libfmt-dev libedit-dev
  libgtest-dev libgmock-dev clang-14 clang-format-14 libclang-rt-14-dev)
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]})); then
  as_root=()
  ((EUID == 0)) || as_root=(sudo)
  echo "installing: ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
