# The commands that only compute as one WebAssembly module: `scripts/web.sh` calls CMake with Emscripten's toolchain and GPUPLAN_WEB, a
# folder with the sources of yaml-cpp, pugixml and zlib and an include folder with links to the headers of the system's other libraries.
set(GPUPLAN_WEB "" CACHE PATH "sources and headers of the libraries, made by scripts/web.sh")

enable_language(C)  # zlib
# -fwasm-exceptions: calls in JavaScript, the other way of Emscripten 3.1 to catch exceptions, take half as long again.
add_compile_options(-fwasm-exceptions -mnontrapping-fptoint -msign-ext -fno-threadsafe-statics "$<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>" -w "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_SOURCE_DIR}/web/engine/libcxx13.h>")
add_link_options(-fwasm-exceptions)
include_directories(SYSTEM ${GPUPLAN_WEB}/include)
# With -Os and -Oz, Emscripten inlines nothing in the compiler: larger and slower than what the compiler itself makes of them.
set(small -Oz -finline-functions)

file(GLOB yaml ${GPUPLAN_WEB}/yaml-cpp/src/*.cpp)
file(GLOB zlib ${GPUPLAN_WEB}/zlib/adler32.c ${GPUPLAN_WEB}/zlib/crc32.c ${GPUPLAN_WEB}/zlib/inf*.c ${GPUPLAN_WEB}/zlib/zutil.c)
add_library(gpuplan_others STATIC ${yaml} ${zlib} ${GPUPLAN_WEB}/pugixml/src/pugixml.cpp ${CMAKE_SOURCE_DIR}/cmake/portable/fmt.cpp)
target_compile_options(gpuplan_others PRIVATE ${small})
target_include_directories(gpuplan_others SYSTEM PUBLIC ${GPUPLAN_WEB}/yaml-cpp/include ${GPUPLAN_WEB}/pugixml/src ${GPUPLAN_WEB}/zlib)
target_compile_definitions(gpuplan_others PUBLIC YAML_CPP_STATIC_DEFINE FMT_SHARED)
foreach(name FMT YAML PUGIXML ZLIB)
  set(GPUPLAN_${name} gpuplan_others)
endforeach()
foreach(target nlohmann_json::nlohmann_json Boost::headers CLI11::CLI11 Threads::Threads)
  add_library(${target} INTERFACE IMPORTED)
endforeach()

# gpuplan_web_module(): gpuplan.js and gpuplan.wasm. All is compiled for size but base, the simulator and what `node --cpu-prof` finds most of
# a warm estimate's and a search's time in.
function(gpuplan_web_module)
  target_compile_definitions(gpuplan_base PRIVATE GPUPLAN_SOURCE_DATA_DIR="/data" PUBLIC GPUPLAN_VERSION="${PROJECT_VERSION}")
  foreach(folder models device cluster planner ecosystem mend rows validate diagnose search report cli)
    target_compile_options(gpuplan_${folder} PRIVATE ${small})
  endforeach()
  file(GLOB quick ${CMAKE_SOURCE_DIR}/planner/*.cpp)
  list(FILTER quick INCLUDE REGEX "/(block|cost|memory|program_builder|stage_.*|state_sizes|strategy_estimate|timed_program)\\.cpp$")
  set_source_files_properties(${quick} PROPERTIES COMPILE_OPTIONS -O2)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/web/engine/bytes.cpp PROPERTIES COMPILE_OPTIONS "-mbulk-memory;-fno-builtin")
  file(GLOB sources ${CMAKE_SOURCE_DIR}/web/engine/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/answers\\.cpp$")  # a native program
  add_executable(gpuplan_web ${sources})
  set_target_properties(gpuplan_web PROPERTIES OUTPUT_NAME gpuplan SUFFIX .js)
  target_link_libraries(gpuplan_web PRIVATE gpuplan_cli)
  target_link_options(gpuplan_web PRIVATE -Oz "SHELL:-s MODULARIZE=1" "SHELL:-s EXPORT_NAME=createGpuplan" "SHELL:-s EXPORT_ES6=1" "SHELL:-s USE_ES6_IMPORT_META=0"
                      "SHELL:-s ALLOW_MEMORY_GROWTH=1" "SHELL:-s MAXIMUM_MEMORY=4GB" "SHELL:-s TOTAL_STACK=4MB" "SHELL:-s FORCE_FILESYSTEM=1"
                      "SHELL:-s ENVIRONMENT=web,worker" "SHELL:-s EXIT_RUNTIME=0" "SHELL:-s INVOKE_RUN=0"
                      "SHELL:-s EXPORTED_FUNCTIONS=_gpuplan_answer,_gpuplan_use_data,_gpuplan_size,_malloc,_free" "SHELL:-s EXPORTED_RUNTIME_METHODS=FS" --no-entry)
endfunction()
