# Warnings are errors on our own targets with the compilers that ./check knows to give none; another one may know new warnings, and a
# first build must not fail because of them. Sanitizers and coverage apply to all targets alike.
# -Wno-restrict and -Wno-maybe-uninitialized: GCC 12 reports libstdc++'s own string and optional code (GCC bugs 105651,
# 105562). -Wno-missing-field-initializers: our structs have defaults for every field, and designated initialisers state
# only what is special. -Wno-dangling-reference: GCC 13 and later take a reference into a table for one to an argument.
# Hardening of what is shipped; scripts/check_objects.sh looks for it in every object. Ubuntu's compiler defines _FORTIFY_SOURCE by itself.
# -ffp-contract=off: no fused multiply-add behind our back, so that every compiler computes the same event times.
# -fmacro-prefix-map: a bug is reported by its place in the source tree, not by that of who built it; a compiler cache works across clones.
set(GPUPLAN_WERROR)
if("${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU (12|14)|Clang 14)\\.")
  set(GPUPLAN_WERROR -Werror)
endif()
set(GPUPLAN_HARDENING -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND GPUPLAN_HARDENING -fcf-protection)
endif()

function(gpuplan_warnings target)
  if(EMSCRIPTEN)  # whose libraries and linker know none of these
    target_compile_options(${target} PRIVATE -ffp-contract=off -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
    return()
  endif()
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${GPUPLAN_HARDENING}>")
  target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  target_compile_options(${target} PRIVATE -ffp-contract=off -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow ${GPUPLAN_WERROR}
                         -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
                         $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>)
  if(GPUPLAN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${GPUPLAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${GPUPLAN_SANITIZE})
    if(GPUPLAN_SANITIZE MATCHES "undefined")  # ASan sees what these would, and they are a fifth of the time to compile
      target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,vptr)
    endif()
  endif()
  if(GPUPLAN_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_link_options(${target} PRIVATE --coverage)
  endif()
endfunction()
