# The tests of the CPU device open the shared objects, and run its kernels once per instruction set. The suppressions are for what
# OpenMPI, oneDNN and OpenMP keep to the end of the process.
add_dependencies(test_device device_libraries)
set(sanitizer_environment "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/races.supp:halt_on_error=1:second_deadlock_stack=1")
set_tests_properties(device PROPERTIES ENVIRONMENT "${sanitizer_environment}")
# These variables leave what a processor without AVX-512 has: our kernels' variant, and oneDNN's own (DNNL_ before its version 2.6).
set(avx2_environment "GPUPLAN_CPU_VARIANT=avx2;ONEDNN_MAX_CPU_ISA=AVX2;DNNL_MAX_CPU_ISA=AVX2")
add_test(NAME device_avx2 COMMAND test_device)
set_tests_properties(device_avx2 PROPERTIES ENVIRONMENT "${avx2_environment};${sanitizer_environment}")
if(NOT GPUPLAN_SANITIZE)  # avx2 is the same sources with vectors
  add_test(NAME device_baseline COMMAND test_device --test-case-exclude=*GEMM*)  # our variants change none of oneDNN
  set_tests_properties(device_baseline PROPERTIES ENVIRONMENT "GPUPLAN_CPU_VARIANT=baseline;${sanitizer_environment}")
endif()

# Nothing that is compiled for several instruction sets may be shared between them (cmake/CpuVariants.cmake): no weak symbols.
find_program(NM nm)
if(NM AND TARGET gpuplan_cpu AND NOT GPUPLAN_SANITIZE AND CMAKE_BUILD_TYPE MATCHES Rel)
  set(objects "$<TARGET_OBJECTS:gpuplan_cpu_baseline>;$<$<TARGET_EXISTS:gpuplan_cpu_avx512>:$<TARGET_OBJECTS:gpuplan_cpu_avx512>>")
  add_test(NAME cpu_variants_share_nothing COMMAND ${NM} -C ${objects} COMMAND_EXPAND_LISTS)
  set_tests_properties(cpu_variants_share_nothing PROPERTIES FAIL_REGULAR_EXPRESSION " [Wu] ")
endif()

if(TARGET gpuplan_mpi AND TARGET gpuplan_cpu)
  add_executable(mpi_collectives ${CMAKE_CURRENT_SOURCE_DIR}/mpi/collectives.cpp)
  target_link_libraries(mpi_collectives PRIVATE gpuplan_device)
  gpuplan_warnings(mpi_collectives)
  add_dependencies(mpi_collectives device_libraries)
  add_test(NAME mpi COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpi/collectives_test.sh $<TARGET_FILE:mpi_collectives>)
  # No search for leaks here: Open MPI's come from plugins that are unloaded by then, and have no name to suppress.
  set_tests_properties(mpi PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
      ENVIRONMENT "${sanitizer_environment};ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:check_initialization_order=1")
endif()
