# Folders that read bytes from outside: there libFuzzer learns which branches an input takes, which makes loops slower.
set(GLINT_FUZZED base checkpoint model net quant rl/rewards runtime server text)

# glint_module(NAME [SRCS a.cc ...] [COLD b.cc ...] [LIBS lib ...] [TESTS a_test.cc ...])
#
# Defines the static library glint_<NAME> and, when there are TESTS, the test program <NAME>_test, which runs in
# ctest with the label `unit`. The modules it links are those that cmake/layers.txt lists for NAME (the tests also those of its
# line "NAME tests:"): an edge that is not in that file does not link. LIBS are libraries from outside; they are private
# to the module. COLD: sources whose code has no loop over numbers or bytes of its own; they are half optimised, which compiles
# faster. Of a module without other sources, sanitizers optimise nothing: their checks take an optimiser thrice the time.
function(glint_module NAME)
  cmake_parse_arguments(M "" "" "SRCS;COLD;LIBS;TESTS" ${ARGN})
  string(REPLACE "/" "_" target ${NAME})
  set(library glint_${target})
  add_library(${library} STATIC ${M_SRCS} ${M_COLD})
  set_property(SOURCE ${M_COLD} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${library} PUBLIC glint_flags PRIVATE ${M_LIBS})
  glint_precompile(${library} library)
  if(GLINT_SANITIZE AND NOT M_SRCS)
    set(unoptimised -O0)
  endif()
  target_compile_options(${library} PRIVATE ${unoptimised})
  if(GLINT_FUZZ AND NAME IN_LIST GLINT_FUZZED)
    target_compile_options(${library} PRIVATE -fsanitize=fuzzer-no-link)
  endif()

  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/layers.txt line REGEX "^${NAME}:")
  if(NOT line)
    message(FATAL_ERROR "${NAME} is not in cmake/layers.txt")
  endif()
  glint_layer_libraries("${line}" libraries)
  target_link_libraries(${library} PUBLIC ${libraries})

  if(GLINT_TESTS AND M_TESTS)
    file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/layers.txt line REGEX "^${NAME} tests:")
    glint_layer_libraries("${line}" libraries)
    add_executable(${target}_test ${M_TESTS})
    target_link_libraries(${target}_test PRIVATE ${library} ${libraries} GTest::gtest_main ${M_LIBS}
      glint_test_flags)
    target_compile_options(${target}_test PRIVATE ${unoptimised})
    glint_precompile(${target}_test tests)
    add_dependencies(sanitized_tests ${target}_test)
    add_test(NAME ${target}_test COMMAND ${target}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${target}_test PROPERTIES LABELS unit)
  endif()
endfunction()

# The libraries of the folders that `line` of cmake/layers.txt lists, as far as this build has them.
function(glint_layer_libraries line result)
  string(REGEX REPLACE "^[^:]*:" "" folders "${line}")
  separate_arguments(folders)
  string(REPLACE "/" "_" folders "${folders}")
  list(TRANSFORM folders REPLACE "(.+)" "$<TARGET_NAME_IF_EXISTS:glint_\\1>")
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

# glint_embed(OUT HEADER FUNCTION FILE ...): files as bytes in the program, a table that FUNCTION returns.
function(glint_embed out header function)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  string(REPLACE ";" "," list "${files}")
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${out}
    COMMAND ${CMAKE_COMMAND} -D FILES=${list} -D OUT=${CMAKE_CURRENT_BINARY_DIR}/${out} -D HEADER=${header}
      -D FUNCTION=${function} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
endfunction()
