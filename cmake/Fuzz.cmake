# tests/fuzz/<name>_fuzz.cpp: one libFuzzer program each (Clang only; `./check --fuzz` builds and runs them).
option(GPUPLAN_FUZZ "build the fuzz targets" OFF)

if(GPUPLAN_FUZZ)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
  foreach(source ${fuzzers})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE gpuplan_planner)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    gpuplan_warnings(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endforeach()
endif()
