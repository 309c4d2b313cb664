#!/usr/bin/env bash
# Installs what a build of glint needs and this machine lacks: Debian packages, with sudo only when not root.
# Asks nothing. Running it again costs a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(g++ cmake ninja-build ccache git ca-certificates python3 python3-pip python3-venv pkg-config
  libboost1.81-dev libboost-json1.81-dev libspdlog-dev libfmt-dev libedit-dev libssl-dev libyaml-cpp-dev
  prometheus-cpp-dev openssl curl libxxhash-dev
  chromium chromium-driver
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

# xgrammar 0.2.8, compiled grammars for structured output. Built once, for every preset and compiler, so without its
# -flto. Changed in three places (-2 is the number of that change): its messages come to us (src/text/grammar.cc), and what
# it would only warn about can be an error, which has to leave a destructor; strings of limited length hold no control
# characters, and their characters are counted, where as many copies of a rule took seconds to compile and milliseconds a
# mask; a pattern that its automaton cannot match inside a JSON string is an error, where it would give strings with bare
# quotes.
xgrammar=build/deps/xgrammar-0.2.8-2
if [[ ! -e $xgrammar/lib/libxgrammar.a ]]; then
  unpack xgrammar 0.2.8 8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
  source=$work/xgrammar-0.2.8
  sed -i 's/ -flto=auto//; s/ -Werror / /' "$source/CMakeLists.txt"
  # Replaces the one line of FILE that holds TEXT.
  replace_line() {
    [[ $(grep -cF "$2" "$source/cpp/$1") == 1 ]]
    text=$2 line=$3 awk '{ print index($0, ENVIRON["text"]) ? ENVIRON["line"] : $0 }' "$source/cpp/$1" >"$work/changed"
    mv "$work/changed" "$source/cpp/$1"
  }
  replace_line support/logging.h '~LogMessage() { LogMessageImpl(' \
    '~LogMessage() noexcept(false) { LogMessageImpl(file_, lineno_, level_, stream_.str()); }'
  replace_line json_schema_converter.cc "{'\\r', '\\r'}, {'\\n', '\\n'}}, true);" \
    "builder_.AddCharacterClass({{'\"', '\"'}, {'\\\\', '\\\\'}, {0, 0x1f}}, true);"
  replace_line json_schema_converter.cc \
    'int32_t body = Repeat(rule_name + "_characters", character, spec.min_length, spec.max_length);' \
    'int32_t body_rule = builder_.AddEmptyRuleWithHint(rule_name + "_characters");
     int32_t star = builder_.AddCharacterClassStar({{0x22, 0x22}, {0x5c, 0x5c}, {0, 0x1f}}, true);
     builder_.UpdateRuleBody(body_rule, spec.min_length == 0 ? star : Sequence(
         {Repeat(rule_name + "_first", character, spec.min_length, spec.min_length), star}));
     if (spec.max_length != -1) builder_.UpdateMaxChars(body_rule, spec.max_length);
     int32_t body = RuleRef(body_rule);'
  replace_line json_schema_converter.cc '// Keep regex conversion independent. Only the uncommon fallback path converts its existing' \
    'if (json_string) XGRAMMAR_LOG(FATAL) << "pattern " << regex << " is not supported inside a JSON string";'
  mkdir "$work/build"
  touch "$work/build/config.cmake" # else its own wins over the options below
  install_source "$source" "$xgrammar" -DCMAKE_CXX_FLAGS=-DXGRAMMAR_LOG_CUSTOMIZE=1 \
    -DXGRAMMAR_BUILD_PYTHON_BINDINGS=OFF -DCMAKE_INSTALL_LIBDIR=lib
fi
