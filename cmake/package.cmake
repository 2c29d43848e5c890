# package.cmake - how other builds find the installed library: triax.pc for pkg-config, and the package triax with the
# target triax::triax for find_package. Both name what they need relative to themselves, so the folder that triax was
# installed into may be moved. An absolute CMAKE_INSTALL_INCLUDEDIR or CMAKE_INSTALL_LIBDIR stays where it is.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/triax)

target_include_directories(triax_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(triax_shared PROPERTIES EXPORT_NAME triax)
install(TARGETS triax)
install(TARGETS triax_shared EXPORT triax-config)
install(EXPORT triax-config NAMESPACE triax:: DESTINATION ${package_dir})
install(DIRECTORY include/triax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
write_basic_package_version_file(triax-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/triax-config-version.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(pc_private ${JANSSON_LDFLAGS} ${UTF8PROC_LDFLAGS} ${XXHASH_LDFLAGS} ${ARCHIVE_LDFLAGS} ${HWLOC_LDFLAGS}
    ${NETTLE_LDFLAGS} ${ONIGURUMA_LDFLAGS} ${MICROHTTPD_LDFLAGS} ${URING_LDFLAGS} -lz -ldnnl ${OpenMP_C_FLAGS} -lm -pthread)
list(REMOVE_DUPLICATES pc_private)
string(REPLACE ";" " " pc_private "${pc_private}")
configure_file(cmake/triax.pc.in triax.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/triax.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# the manual, of --help and of the headers
if(NOT TX_SANITIZE AND NOT TX_TSAN AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/triax/*.h)
  add_custom_command(OUTPUT man/made DEPENDS triax tools/gen_man ${public_headers} VERBATIM
                     COMMAND bash ${PROJECT_SOURCE_DIR}/tools/gen_man $<TARGET_FILE:triax> ${PROJECT_SOURCE_DIR}/include man
                     COMMAND ${CMAKE_COMMAND} -E touch man/made)
  add_custom_target(manual ALL DEPENDS man/made)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} FILES_MATCHING PATTERN "*.[13]")
endif()
