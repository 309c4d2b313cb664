# glint_precompile(TARGET KIND): TARGET's sources find the headers of cmake/precompiled.h compiled. KIND: `library`, or `tests`, which adds
# gtest. A quarter less to compile. Sources include what they use all the same: tools/check_style.py sees to that.
# A kind has one owner, without definitions of its own: g++ takes the file only where every macro of the owner is defined alike, and
# where code is compiled for a library (-fPIC) or a program (-fPIE) as the owner's is.
function(glint_precompile TARGET KIND)
  if(NOT GLINT_DEVICE_ONLY)
    target_precompile_headers(${TARGET} REUSE_FROM precompiled_${KIND})
  endif()
endfunction()

if(NOT GLINT_DEVICE_ONLY)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled/empty.cc CONTENT "int main() {}\n")
  add_library(precompiled_library OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled/empty.cc)
  target_link_libraries(precompiled_library PRIVATE glint_flags)
  target_precompile_headers(precompiled_library PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)
  if(GLINT_TESTS)
    add_executable(precompiled_tests EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/precompiled/empty.cc)
    target_link_libraries(precompiled_tests PRIVATE glint_flags glint_test_flags GTest::gtest)
    target_precompile_headers(precompiled_tests PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h <gtest/gtest.h>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # False alarms about std::string, which g++ 12 holds back in headers that are not precompiled.
    target_compile_options(glint_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>)
    set(known_again -fpch-preprocess)
  else()
    # It would refuse what another -O, or none of the fuzzer's marks, compiled: no declaration depends on these.
    target_compile_options(glint_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-validate-pch>")
    set(known_again "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(CCACHE)  # which needs these to know such sources again
    target_compile_options(glint_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${known_again}>")
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endif()
