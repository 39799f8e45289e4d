# The values of data/, parsed while building, as an object file that programs link: data_archive.o defines the symbols
# _binary_data_archive_start and _end, which base/data_archive_symbols.h names.
add_executable(gpuplan_pack_data EXCLUDE_FROM_ALL cmake/pack_data.cpp)
target_link_libraries(gpuplan_pack_data PRIVATE gpuplan_base)
gpuplan_warnings(gpuplan_pack_data)
file(GLOB_RECURSE data_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/*.json ${CMAKE_SOURCE_DIR}/data/*.yaml)
set(data_object ${CMAKE_BINARY_DIR}/data_archive.o)
add_custom_command(OUTPUT ${data_object}
                   COMMAND gpuplan_pack_data ${CMAKE_SOURCE_DIR}/data data_archive
                   COMMAND ${CMAKE_LINKER} -r -b binary -z noexecstack -o data_archive.o data_archive
                   WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
                   DEPENDS gpuplan_pack_data ${data_files}
                   COMMENT "Packing data/" VERBATIM)
set_source_files_properties(${data_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)

# gpuplan_carries_data(<target>…): these programs take the files of data/ from the archive.
function(gpuplan_carries_data)
  foreach(target ${ARGN})
    target_sources(${target} PRIVATE ${data_object})
  endforeach()
endfunction()
