#!/usr/bin/env bash
# Installs what glint needs and this machine lacks: Debian packages, with sudo only when not root.
#   tools/setup.sh           for everything in this tree but GPUs
#   tools/setup.sh program   to build the program and packages of it; not what tests, sanitizers and the lint run
#   tools/setup.sh cuda      also NCCL, and CUDA 13's compiler where this machine has none; with program, too
# Asks nothing. Running it again costs a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ cmake ninja-build ccache git ca-certificates python3 python3-pip pkg-config dpkg-dev file
  libboost1.81-dev libboost-json1.81-dev libspdlog-dev libfmt-dev libedit-dev libssl-dev libyaml-cpp-dev libcurl4-openssl-dev
  prometheus-cpp-dev libutf8proc-dev libxxhash-dev libgtest-dev libgmock-dev)
[[ " $* " == *" program "* ]] ||
  packages+=(python3-venv openssl curl chromium chromium-driver clang-14 clang-format-14 libclang-rt-14-dev)
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

# unpack PACKAGE VERSION SHA256: the source that PyPI carries, in a new folder $work.
unpack() {
  echo "building $1 $2" >&2
  mkdir -p build/deps
  work=$(mktemp -d "build/deps/$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --no-deps --no-binary "$1" --dest "$work" "$1==$2" >&2
  echo "$3  $work/$1-$2.tar.gz" | sha256sum --check --quiet
  tar -xzf "$work/$1-$2.tar.gz" -C "$work"
}

# install_source SOURCE FOLDER OPTION...: builds SOURCE in $work, with these options of CMake, and makes FOLDER of it.
install_source() {
  cmake -S "$1" -B "$work/build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$work/install" "${@:3}" >&2
  cmake --build "$work/build" -j "$(nproc)" >/dev/null
  cmake --install "$work/build" >/dev/null
  rm -rf "$2"
  find "$1" -maxdepth 1 \( -name 'LICEN[CS]E*' -o -name NOTICE \) -exec cp {} "$work/install/" \;
  mv "$work/install" "$2"
  rm -rf "$work"
}

# PCRE2 10.47, whose character classes are those of Unicode 16 (Debian's 10.42 has 14). Built once, for every preset.
pcre2=build/deps/pcre2-10.47
if [[ ! -e $pcre2/lib/libpcre2-8.a ]]; then
  unpack pcre2 0.7.1 69ced4288892e2571dd792e7bfb12371bb059f226204bf03300664177c508b64
  install_source "$work/pcre2-0.7.1/src/libpcre2" "$pcre2" -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DPCRE2_SUPPORT_JIT=ON -DPCRE2_NEVER_BACKSLASH_C=ON -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF \
    -DPCRE2_SUPPORT_LIBREADLINE=OFF
fi

# xgrammar 0.2.8, compiled grammars for structured output, changed by tools/patches/xgrammar-0.2.8.patch (-7 is the number
# of that change). Built once, for every preset and compiler.
xgrammar=build/deps/xgrammar-0.2.8-7
if [[ ! -e $xgrammar/lib/libxgrammar.a ]]; then
  unpack xgrammar 0.2.8 8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
  source=$work/xgrammar-0.2.8
  patch --quiet --strip 1 --directory "$source" <tools/patches/xgrammar-0.2.8.patch
  mkdir "$work/build"
  touch "$work/build/config.cmake" # else its own wins over the options below
  install_source "$source" "$xgrammar" -DCMAKE_CXX_FLAGS=-DXGRAMMAR_LOG_CUSTOMIZE=1 \
    -DCMAKE_UNITY_BUILD=ON -DXGRAMMAR_BUILD_PYTHON_BINDINGS=OFF -DCMAKE_INSTALL_LIBDIR=lib
fi

# install_wheels FOLDER PART REQUIREMENT...: makes FOLDER of what these packages of PyPI have as nvidia/PART.
install_wheels() {
  echo "installing $1" >&2
  mkdir -p build/deps
  work=$(mktemp -d build/deps/wheels.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  printf '%s\n' "${@:3}" >"$work/requirements.txt"
  python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target "$work/site" \
    --requirement "$work/requirements.txt" >&2
  local made=$work/site/nvidia/$2
  cat "$work"/site/*.dist-info/licenses/* >"$made/LICENSE"
  # CMake looks for these, and wheels leave them out.
  ln -s lib "$made/lib64"
  (cd "$made/lib" && for library in *.so.*; do ln -s "$library" "${library%%.so.*}.so"; done)
  mv "$made" "$1"
  rm -rf "$work"
}

if [[ " $* " == *" cuda "* ]]; then
  cuda=build/deps/cuda-13.0
  nvcc=$(PATH=$PATH:${CUDA_HOME:-}/bin:/usr/local/cuda/bin nvcc --version 2>/dev/null || true)
  if [[ ! -e $cuda && $nvcc != *"release 13."* ]]; then
    install_wheels "$cuda" cu13 \
      "nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03" \
      "nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4" \
      "nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0" \
      "nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548" \
      "nvidia-cuda-cccl==13.0.85 --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649"
  fi
  nccl=build/deps/nccl-2.28.9
  if [[ ! -e $nccl ]]; then # its headers; the library is for the image
    install_wheels "$nccl" nccl \
      "nvidia-nccl-cu13==2.28.9 --hash=sha256:e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42"
  fi
fi
