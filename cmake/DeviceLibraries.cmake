# The shared objects of device/: what a machine lacks the parts for is left out, with the reason.
option(GPUPLAN_CUDA "build the CUDA and NCCL libraries where the toolkit is found" ON)

add_custom_target(device_libraries)

# gpuplan_device_library(<name> SOURCES <files> LINKS <libraries>): lib/gpuplan/libgpuplan_<name>.so in the build tree and where
# it is installed; opened by device/backend.cpp, linked by nobody.
function(gpuplan_device_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(gpuplan_${name} MODULE ${ARG_SOURCES})
  target_link_libraries(gpuplan_${name} PRIVATE gpuplan_base ${ARG_LINKS})
  target_include_directories(gpuplan_${name} PRIVATE ${CMAKE_BINARY_DIR}/include/device)
  gpuplan_warnings(gpuplan_${name})
  set_target_properties(gpuplan_${name} PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gpuplan
                        CXX_VISIBILITY_PRESET hidden INSTALL_RPATH_USE_LINK_PATH ON)
  # Only the entry points can be seen from outside: its copy of base, and what it links statically, stay its own.
  target_link_options(gpuplan_${name} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/device/exports.map)
  set_property(TARGET gpuplan_${name} APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/device/exports.map)
  add_dependencies(device_libraries gpuplan_${name})
  install(TARGETS gpuplan_${name} LIBRARY DESTINATION lib/gpuplan)
endfunction()

# gpuplan_skip(<name> <reason>): said by CMake now and by ./check at its end.
function(gpuplan_skip name reason)
  message(STATUS "device library ${name}: skipped, ${reason}")
  set(GPUPLAN_SKIPPED_${name} "${reason}" CACHE INTERNAL "why libgpuplan_${name}.so is not built")
endfunction()

set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # header checks and tests see them too
foreach(folder cpu mpi cuda nccl)
  unset(GPUPLAN_SKIPPED_${folder} CACHE)
  add_subdirectory(device/${folder})
endforeach()
