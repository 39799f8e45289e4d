# What scripts/bundle.sh packs beside the program: the shared libraries of Debian 11 that device libraries need, and notices/, which the
# script fills with licences and a list of what is inside. `cpack` makes a .deb of the same files.
foreach(library libdnnl.so.2 libgomp.so.1 libOpenCL.so.1)
  file(REAL_PATH ${GPUPLAN_PORTABLE}/onednn/usr/lib/x86_64-linux-gnu/${library} real)
  install(PROGRAMS ${real} DESTINATION lib/gpuplan RENAME ${library})
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/notices/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_SOURCE_DIR}/cmake/portable/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})  # where Debian looks for it

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "the gpuplan maintainers <maintainers@gpuplan.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, simulate and run the fine-tuning of language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION " Says which strategies of a fine-tuning job fit a cluster, how fast each is and what it costs,
 simulates its steps, and runs the plan on CPUs and GPUs.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# By hand: dpkg-shlibdeps would ask for this system's versions. oneDNN needs the C++ library; Open MPI is for several CPU ranks,
# libcurl for models of the Hugging Face Hub.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.31), libstdc++6 (>= 10)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, libcurl4 | libcurl4t64, ca-certificates")
include(CPack)
