# gpuplan_cpu_variants(<target> <sources>): compiles the sources once per instruction set and links all into <target>; the
# program picks one when it runs (device/cpu/variant.h). Sources put everything in namespace GPUPLAN_CPU_VARIANT or an unnamed
# one: an inline function shared between variants would be the linker's choice, and might be the wrong one.
# -ffp-contract=fast and -O3 here alone: kernels want fused multiply-adds, and their results need not equal another compiler's.
find_package(OpenMP COMPONENTS CXX)

set(GPUPLAN_CPU_VARIANTS baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND GPUPLAN_CPU_VARIANTS avx2 avx512)
endif()
set(GPUPLAN_CPU_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(GPUPLAN_CPU_FLAGS_avx512 ${GPUPLAN_CPU_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)

function(gpuplan_cpu_variants target)
  foreach(variant ${GPUPLAN_CPU_VARIANTS})
    set(objects ${target}_${variant})
    add_library(${objects} OBJECT ${ARGN})
    target_link_libraries(${objects} PRIVATE gpuplan_base OpenMP::OpenMP_CXX)
    target_include_directories(${objects} PRIVATE ${CMAKE_BINARY_DIR}/include/device)
    target_compile_definitions(${objects} PRIVATE GPUPLAN_CPU_VARIANT=${variant})
    gpuplan_warnings(${objects})
    target_compile_options(${objects} PRIVATE ${GPUPLAN_CPU_FLAGS_${variant}} -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math)
    if(GPUPLAN_SANITIZE MATCHES "thread")  # knows nothing of OpenMP's barriers, and would call every kernel a race
      target_compile_options(${objects} PRIVATE -fno-sanitize=thread)
    endif()
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
