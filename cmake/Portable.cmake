# GPUPLAN_PORTABLE=<folder>: link for any Linux with glibc 2.31 or later. scripts/bundle.sh fills the folder with Debian 11's C library
# and oneDNN, and a static SentencePiece. Sources are compiled as always; the C++ library, fmt, yaml-cpp, pugixml and zlib are linked in.
set(GPUPLAN_PORTABLE "" CACHE PATH "link for older systems: a folder made by scripts/bundle.sh")
set(GPUPLAN_FMT fmt::fmt)
set(GPUPLAN_YAML yaml-cpp)
set(GPUPLAN_PUGIXML pugixml::pugixml)
set(GPUPLAN_ZLIB ZLIB::ZLIB)
if(NOT GPUPLAN_PORTABLE)
  return()
endif()

find_library(GPUPLAN_YAML_STATIC libyaml-cpp.a REQUIRED)
find_library(GPUPLAN_PUGIXML_STATIC libpugixml.a REQUIRED)
find_library(GPUPLAN_ZLIB_STATIC libz.a REQUIRED)
set(GPUPLAN_YAML ${GPUPLAN_YAML_STATIC})
set(GPUPLAN_PUGIXML ${GPUPLAN_PUGIXML_STATIC})
set(GPUPLAN_ZLIB ${GPUPLAN_ZLIB_STATIC})

add_library(gpuplan_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/portable/fmt.cpp)  # Debian has no static fmt; its headers hold the sources
set_target_properties(gpuplan_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_definitions(gpuplan_fmt INTERFACE FMT_SHARED)  # as fmt::fmt does, so that ccache finds the same commands
set(GPUPLAN_FMT gpuplan_fmt)

add_library(gpuplan_old_glibc OBJECT ${CMAKE_SOURCE_DIR}/cmake/portable/old_glibc.cpp)
set_target_properties(gpuplan_old_glibc PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)

set(folder ${GPUPLAN_PORTABLE}/usr/lib/x86_64-linux-gnu)
set(onednn ${GPUPLAN_PORTABLE}/onednn/usr/lib/x86_64-linux-gnu)
set(DNNL_INCLUDE_DIR ${GPUPLAN_PORTABLE}/onednn/usr/include)
# oneDNN needs OpenCL's loader, too. It has no RUNPATH of its own, so that libgpuplan_cpu.so asks for both.
set(DNNL_LIBRARY -Wl,--push-state,--no-as-needed,${onednn}/libdnnl.so.2,${onednn}/libOpenCL.so.1,--pop-state)
set(SENTENCEPIECE_INCLUDE ${GPUPLAN_PORTABLE}/sentencepiece/include)
set(SENTENCEPIECE_LIBRARY ${GPUPLAN_PORTABLE}/sentencepiece/lib/libsentencepiece.a)

# GCC looks in its own folders before those of --sysroot, unless they come first on the command line.
add_link_options(-B${folder} -L${folder} -L${GPUPLAN_PORTABLE}/lib/x86_64-linux-gnu --sysroot=${GPUPLAN_PORTABLE}
                 -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
# Libraries of their own before glibc 2.34; only the static C++ library, which comes last, asks for some of what they hold.
link_libraries(-Wl,--push-state,--no-as-needed,-lpthread,-ldl,-lrt,--pop-state)
