# tests/fuzz/<name>_fuzz.cpp: `answer` is the whole program; the others call parsers of it, which take thousands of inputs in the time of
# one question, or hold what was read against a law that no answer shows. Every build replays the kept inputs, tests/fuzz/corpus/<name>/, through
# it as a test. With GPUPLAN_FUZZ (Clang) it is a libFuzzer program too; `./check --fuzz` builds (target `fuzzers`) and runs them.
option(GPUPLAN_FUZZ "build the fuzz targets with libFuzzer" OFF)

function(gpuplan_fuzz_program program source)
  add_executable(${program} ${source} ${ARGN})
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${program} PRIVATE gpuplan_execute)
  gpuplan_warnings(${program})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)
if(GPUPLAN_FUZZ)
  add_custom_target(fuzzers)
endif()
set(replays ${GPUPLAN_TESTS})
if(NOT GPUPLAN_EVERY_TEST AND NOT GPUPLAN_SANITIZE)  # ./check: under sanitizers
  set(replays OFF)
endif()
if(replays)  # what all replays share
  add_library(fuzz_replay OBJECT ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cpp ${CMAKE_SOURCE_DIR}/tests/fuzz/json_mutator.cpp)
  target_include_directories(fuzz_replay PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(fuzz_replay PRIVATE gpuplan_planner)
  gpuplan_warnings(fuzz_replay)
endif()
foreach(source ${fuzz_sources})
  get_filename_component(target ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${target})
  if(replays)
    gpuplan_fuzz_program(${target}_replay ${source} $<TARGET_OBJECTS:fuzz_replay>)
    add_test(NAME ${target} COMMAND ${target}_replay ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  endif()
  if(GPUPLAN_FUZZ)
    gpuplan_fuzz_program(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    if(name MATCHES "^(config|estimate|from|checkpoint)$")  # JSON
      target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/json_mutator.cpp)
    endif()
    add_dependencies(fuzzers ${target})
  endif()
endforeach()
