# Warnings are errors on our own targets; sanitizers and coverage apply to all of them alike.
# -Wno-restrict and -Wno-maybe-uninitialized: GCC 12 reports libstdc++'s own string and optional code (GCC bugs 105651,
# 105562). -Wno-missing-field-initializers: our structs have defaults for every field, and designated initialisers state
# only what is special.
# Hardening of what is shipped; scripts/check_objects.sh looks for it in every object. Ubuntu's compiler defines _FORTIFY_SOURCE by itself.
# -ffp-contract=off: no fused multiply-add behind our back, so that every compiler computes the same event times.
set(GPUPLAN_HARDENING -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND GPUPLAN_HARDENING -fcf-protection)
endif()

function(gpuplan_warnings target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${GPUPLAN_HARDENING}>")
  target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Werror
                         -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
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
