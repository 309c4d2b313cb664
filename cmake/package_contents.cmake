# Read by cpack for each kind of package: which components it holds. A .deb has its libraries from Debian; the tarball brings
# them, and no links, so that it can stand first on a PATH beside the programs of those names.
set(components program libraries)
set(CPACK_PACKAGING_INSTALL_PREFIX "")
if(CPACK_GENERATOR STREQUAL "DEB")
  set(components program links service)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
endif()
set(CPACK_INSTALL_CMAKE_PROJECTS "")
foreach(component IN LISTS components)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${CPACK_GLINT_BINARY_DIR};glint;${component};/")
endforeach()
