# Everything glint stands on. Debian packages are installed by tools/setup.sh; so is PCRE2, built from its PyPI source.
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)

# spdlog and its fmt as headers only: their shared libraries need not lie where the program runs.
add_library(glint_spdlog INTERFACE)
target_compile_definitions(glint_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(glint_spdlog INTERFACE fmt::fmt-header-only)

if(GLINT_TESTS)
  find_package(GTest REQUIRED)
endif()
