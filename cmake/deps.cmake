# Everything glint stands on. Debian packages are installed by tools/setup.sh; so is PCRE2, built from its PyPI source.
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)

# spdlog and its fmt as headers only: their shared libraries need not lie where the program runs.
add_library(glint_spdlog INTERFACE)
target_compile_definitions(glint_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(glint_spdlog INTERFACE fmt::fmt-header-only)

# PCRE2, static, with JIT and Unicode 16: what tools/setup.sh builds.
set(GLINT_PCRE2 ${PROJECT_SOURCE_DIR}/build/deps/pcre2-10.47)
if(NOT EXISTS ${GLINT_PCRE2}/lib/libpcre2-8.a)
  message(FATAL_ERROR "${GLINT_PCRE2} is missing: run tools/setup.sh")
endif()
add_library(glint_pcre2 STATIC IMPORTED)
set_target_properties(glint_pcre2 PROPERTIES
  IMPORTED_LOCATION ${GLINT_PCRE2}/lib/libpcre2-8.a
  INTERFACE_INCLUDE_DIRECTORIES ${GLINT_PCRE2}/include
  INTERFACE_COMPILE_DEFINITIONS "PCRE2_STATIC;PCRE2_CODE_UNIT_WIDTH=8")

if(GLINT_TESTS)
  find_package(GTest REQUIRED)
endif()

# Compile and link flags of every target of ours.
add_library(glint_flags INTERFACE)
target_link_libraries(glint_flags INTERFACE Threads::Threads)
target_compile_options(glint_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -fno-math-errno -ffp-contract=off>
  # g++ 12 sees overlapping copies in "text" + std::string() that are none (GCC bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)
if(GLINT_SANITIZE)
  target_compile_options(glint_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GLINT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(glint_flags INTERFACE -fsanitize=${GLINT_SANITIZE})
endif()
if(GLINT_FUZZ)
  target_compile_options(glint_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
