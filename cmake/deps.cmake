# Everything glint stands on. Debian packages are installed by tools/setup.sh; so are PCRE2 and xgrammar, built from their PyPI sources.
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(yaml-cpp REQUIRED)

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

# utf8proc, static: case, categories and normal forms of characters.
find_library(GLINT_UTF8PROC libutf8proc.a REQUIRED)
add_library(glint_utf8proc STATIC IMPORTED)
set_target_properties(glint_utf8proc PROPERTIES
  IMPORTED_LOCATION ${GLINT_UTF8PROC}
  INTERFACE_COMPILE_DEFINITIONS UTF8PROC_STATIC)

# xgrammar, static: what tools/setup.sh builds, whose messages come to src/text/grammar/grammar.cc.
set(GLINT_XGRAMMAR ${PROJECT_SOURCE_DIR}/build/deps/xgrammar-0.2.8-7)
if(NOT EXISTS ${GLINT_XGRAMMAR}/lib/libxgrammar.a)
  message(FATAL_ERROR "${GLINT_XGRAMMAR} is missing: run tools/setup.sh")
endif()
add_library(glint_xgrammar STATIC IMPORTED)
set_target_properties(glint_xgrammar PROPERTIES
  IMPORTED_LOCATION ${GLINT_XGRAMMAR}/lib/libxgrammar.a
  INTERFACE_INCLUDE_DIRECTORIES ${GLINT_XGRAMMAR}/include)

if(GLINT_TESTS)
  find_package(GTest REQUIRED)
endif()
