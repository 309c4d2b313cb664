#!/usr/bin/env bash
# tools/package.sh [deb|tar|wheel]...: builds glint, with kernels for every GPU that it knows, and makes packages of it in dist/
# (all three, or those named).
set -euo pipefail
cd "$(dirname "$0")/.."
kinds=("$@")
(($#)) || kinds=(deb tar wheel)
for kind in "${kinds[@]}"; do
  [[ $kind == deb || $kind == tar || $kind == wheel ]] && continue
  echo "tools/package.sh: unknown kind '$kind'; deb, tar or wheel" >&2
  exit 2
done
tools/build.sh package glint
for kind in "${kinds[@]}"; do
  case $kind in
  deb) cpack --config build/package/CPackConfig.cmake -G DEB ;;
  tar) cpack --config build/package/CPackConfig.cmake -G TGZ ;;
  wheel)
    tree=$(mktemp -d build/package/wheel.XXXXXX)
    trap 'rm -rf "$tree"' EXIT
    for component in program libraries; do
      cmake --install build/package --prefix "$tree" --component "$component" --strip >/dev/null
    done
    python3 packaging/make_wheel.py "$tree" "$("$tree/bin/glint" --version | cut -d' ' -f2)" dist
    ;;
  esac
done
rm -rf dist/_CPack_Packages
