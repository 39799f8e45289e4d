# The shared objects of device/: what a machine lacks the parts for is left out, with the reason.
option(GPUPLAN_CUDA "build the CUDA and NCCL libraries where the toolkit is found" ON)

add_custom_target(device_libraries)
add_custom_target(host_libraries)  # those of them that need no GPU
add_dependencies(device_libraries host_libraries)

# gpuplan_device_module(<target> <name> <folder> SOURCES <files> LINKS <libraries>): lib/<folder>/libgpuplan_<name>.so in the build
# tree; opened by device/backend.cpp, linked by nobody.
function(gpuplan_device_module target name folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE gpuplan_base ${ARG_LINKS})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/include/device)
  gpuplan_warnings(${target})
  set_target_properties(${target} PROPERTIES PREFIX lib OUTPUT_NAME gpuplan_${name} CXX_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/${folder} INSTALL_RPATH_USE_LINK_PATH ON)
  # Only the entry points can be seen from outside: its copy of base, and what it links statically, stay its own.
  target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/device/exports.map)
  if(NOT GPUPLAN_SANITIZE)  # a kernel of the list without an implementation is an error here and not when the module is opened
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/device/exports.map)
endfunction()

# gpuplan_device_library(<name> SOURCES <files> LINKS <libraries>): the module that is built and installed in lib/gpuplan.
function(gpuplan_device_library name)
  gpuplan_device_module(gpuplan_${name} ${name} gpuplan ${ARGN})
  # The same RUNPATH here and installed: CMake would pad that of the build tree with ':', an empty entry, which is the current folder.
  set_target_properties(gpuplan_${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  if(GPUPLAN_PORTABLE)
    set(places $ORIGIN)
    if(name MATCHES "^(cuda|nccl)$")  # else on LD_LIBRARY_PATH
      list(APPEND places /usr/local/cuda/lib64)
    endif()
    set_target_properties(gpuplan_${name} PROPERTIES INSTALL_RPATH "${places}" INSTALL_RPATH_USE_LINK_PATH OFF)
    target_sources(gpuplan_${name} PRIVATE $<TARGET_OBJECTS:gpuplan_old_glibc>)
  endif()
  if(name MATCHES "^(cpu|mpi)$")
    add_dependencies(host_libraries gpuplan_${name})
  else()
    add_dependencies(device_libraries gpuplan_${name})
  endif()
  install(TARGETS gpuplan_${name} LIBRARY DESTINATION lib/gpuplan
          PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
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
