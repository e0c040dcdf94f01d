# What `cmake --install` copies: the headers, the library, the program, and what find_package(coda) reads. Nothing in it
# names a folder of this machine, so the installed folder can be moved.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/coda)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS coda)
install(TARGETS coda_all EXPORT coda INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT coda NAMESPACE coda:: FILE coda-targets.cmake DESTINATION ${package})
write_basic_package_version_file(coda-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/coda-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/coda-config-version.cmake DESTINATION ${package})

# The licences of what the library and the program are made of.
set(licenses ${CMAKE_INSTALL_DATADIR}/licenses/coda)
install(FILES LICENSE DESTINATION ${licenses})
foreach(name blake3 cli11 nlohmann_json)
  install(DIRECTORY third_party/${name} DESTINATION ${licenses} FILES_MATCHING PATTERN "LICENSE*" PATTERN include EXCLUDE)
endforeach()
