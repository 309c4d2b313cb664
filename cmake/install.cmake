# `cmake --install build/release`, and what tools/package.sh makes packages of. Components:
#   program    the program and its documents
#   libraries  the shared libraries it needs and a bare Debian 12 lacks, below lib/glint, where the program looks first
#   links      vllm, sglang and trtllm-serve, by whose names the program speaks their command lines
#   service    the unit of systemd
# Only `program` is installed unless another is asked for (--component links): its names may be somebody else's.
include(GNUInstallDirs)

# RPATH and not RUNPATH: libraries below lib/glint find each other by it too.
set_target_properties(glint PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib/glint" BUILD_WITH_INSTALL_RPATH ON)
target_link_options(glint PRIVATE -Wl,--disable-new-dtags)

install(TARGETS glint RUNTIME_DEPENDENCY_SET glint_libraries RUNTIME COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program FILES_MATCHING PATTERN *.md PATTERN *.webp)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program PATTERN CMakeLists.txt EXCLUDE)

# Left out is what every Linux with glibc 2.36 has (as the rules of manylinux say).
install(RUNTIME_DEPENDENCY_SET glint_libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|stdc\\+\\+|gcc_s)\\.so"
  LIBRARY DESTINATION lib/glint COMPONENT libraries EXCLUDE_FROM_ALL)

# The licences of what is inside the program, and of what is brought beside it, as Debian's packages and the sources have them.
set(licences ${CMAKE_INSTALL_DOCDIR}/licences)
set(folders ${GLINT_PCRE2} ${GLINT_XGRAMMAR})
if(GLINT_CUDA)
  cmake_path(GET CUDAToolkit_BIN_DIR PARENT_PATH toolkit)
  list(APPEND folders ${toolkit})
endif()
foreach(folder ${folders})
  file(GLOB texts ${folder}/LICEN* ${folder}/EULA* ${folder}/NOTICE)
  cmake_path(GET folder FILENAME name)
  install(FILES ${texts} DESTINATION ${licences}/${name} COMPONENT program)
endforeach()
foreach(package libboost1.81-dev libfmt-dev libspdlog-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${licences}/${package} COMPONENT program OPTIONAL)
endforeach()
install(CODE "set(licences \"${licences}\")" COMPONENT libraries EXCLUDE_FROM_ALL)
install(CODE [[
  file(GLOB libraries "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/glint/*")
  foreach(library IN LISTS libraries)
    cmake_path(GET library FILENAME name)
    execute_process(COMMAND dpkg-query --search */${name} OUTPUT_VARIABLE package ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" package "${package}")
    if(EXISTS /usr/share/doc/${package}/copyright)
      file(INSTALL /usr/share/doc/${package}/copyright DESTINATION "${CMAKE_INSTALL_PREFIX}/${licences}/${package}")
    endif()
  endforeach()
]] COMPONENT libraries EXCLUDE_FROM_ALL)

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
foreach(name vllm sglang trtllm-serve)
  file(CREATE_LINK glint ${PROJECT_BINARY_DIR}/links/${name} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/links/${name} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT links EXCLUDE_FROM_ALL)
endforeach()

install(FILES packaging/glint.service DESTINATION lib/systemd/system COMPONENT service EXCLUDE_FROM_ALL)
install(FILES packaging/serve.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT service EXCLUDE_FROM_ALL)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the tests need not be built
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_VENDOR "The glint authors")
set(CPACK_PACKAGE_CONTACT "The glint authors <glint@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "serves, quantises and measures GLM-5")
set(CPACK_PACKAGE_DESCRIPTION "One program that runs GLM-5 and its relatives from the published checkpoint, with a server for clients
 of OpenAI, Anthropic, vLLM and SGLang, and a chat page.")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/dist)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME glint-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_GLINT_BINARY_DIR ${PROJECT_BINARY_DIR})  # for the file below
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_contents.cmake)
include(CPack)
