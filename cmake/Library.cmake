# GCC collects its garbage whenever its memory has doubled, from a few MB on: an eighth of the time of a batch, which needs 0.7 GB with
# collections and 0.9 GB without.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>")

# In batches, a header is read and its templates are compiled once for several files: half the time under sanitizers, two fifths less
# for tests. Names in unnamed namespaces must then differ within a folder.
option(GPUPLAN_UNITY "compile the libraries in batches of files" OFF)

function(gpuplan_batches target size)
  if(GPUPLAN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
endfunction()

# gpuplan_library(<folder> LINKS <libraries> [FLAT] [BATCH <files>]): the static library gpuplan_<folder> from all sources below <folder>/
# (FLAT: in <folder>/ itself). Each batch reads and instantiates what the others did: two or three seconds.
# Its headers are included as "<folder>/x.h" through a folder of its own that holds one link, so that a library sees
# only the folders it links and an include that points the wrong way does not compile.
function(gpuplan_library folder)
  cmake_parse_arguments(ARG "FLAT" "BATCH" "LINKS" ${ARGN})
  if(ARG_FLAT)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  endif()
  # What a program has for itself: its start, and which commands there are.
  list(FILTER sources EXCLUDE REGEX "/(cli/main|cli/planning/commands|execute/commands)\\.cpp$")
  set(view ${CMAKE_BINARY_DIR}/include/${folder})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${view}/${folder} SYMBOLIC)
  add_library(gpuplan_${folder} STATIC ${sources})
  target_include_directories(gpuplan_${folder} PUBLIC ${view})
  target_link_libraries(gpuplan_${folder} PUBLIC ${ARG_LINKS})
  gpuplan_warnings(gpuplan_${folder})
  if(NOT ARG_BATCH)
    set(ARG_BATCH 24)
  endif()
  gpuplan_batches(gpuplan_${folder} ${ARG_BATCH})
endfunction()

# gpuplan_common_headers(<folder>…): these libraries, which are compiled with the same options, share one precompiled header.
# A sixth of the time of a first build. ccache does not look behind it.
function(gpuplan_common_headers first)
  if(NOT GPUPLAN_UNITY OR CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  target_precompile_headers(gpuplan_${first} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/CommonHeaders.h)
  foreach(folder ${ARGN})
    target_precompile_headers(gpuplan_${folder} REUSE_FROM gpuplan_${first})
  endforeach()
endfunction()
