# Compile and link flags of every target of ours.
find_package(Threads REQUIRED)
add_library(glint_flags INTERFACE)
target_link_libraries(glint_flags INTERFACE Threads::Threads)
target_compile_options(glint_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<$<NOT:$<BOOL:${GLINT_DEVICE_ONLY}>>:-Werror> -fno-math-errno -ffp-contract=off>
  # False alarms of g++ 12: overlapping copies in "text" + std::string() (GCC bug 105651), and the empty alternatives of a
  # moved std::variant.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict -Wno-maybe-uninitialized>
  # clang does not know every warning of g++ that a file may switch off.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-unknown-warning-option>)
if(GLINT_SANITIZE)
  # clang looks for an object's type through a pipe, and without file descriptors calls it wrong.
  target_compile_options(glint_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GLINT_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer>)
  target_link_options(glint_flags INTERFACE -fsanitize=${GLINT_SANITIZE})
endif()

# The sources of tests: compiled more often than they run, so half optimised. Their files they find from the root of the
# tree, where ctest starts them, so that compiler caches know them from clone to clone.
add_library(glint_test_flags INTERFACE)
target_compile_definitions(glint_test_flags INTERFACE GLINT_SOURCE_DIR=".")
if(GLINT_SANITIZE)
  target_compile_definitions(glint_test_flags INTERFACE GLINT_SANITIZED)
endif()
target_compile_options(glint_test_flags INTERFACE $<$<CONFIG:Release>:-O1>)
