# gpuplan_embed_text(<target> HEADER <header> TEXTS <function> <file>...): files become functions of the program that return their text,
# as <header> declares them in namespace gpuplan: std::string_view <function>(). The program needs no files beside it.
# Run as a script (cmake -P), this file writes the source; as a module, it adds the rule.
# gpuplan_embed_files(<target> HEADER <header> FUNCTION <function> FILES <file>...): std::vector<PageFile> <function>(), a row with name and
# content for each.
if(CMAKE_SCRIPT_MODE_FILE AND FILES)
  set(source "#include \"${HEADER}\"\n\nnamespace gpuplan {\n\nstd::vector<PageFile> ${FUNCTION}() {\n  return {\n")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(FIND "${text}" ")text\"" end)
    if(NOT end EQUAL -1)
      message(FATAL_ERROR "${file} contains the end of a raw string, )text\"")
    endif()
    string(APPEND source "      {\"${name}\", R\"text(${text})text\"},\n")
  endforeach()
  file(WRITE ${OUT} "${source}  };\n}\n\n}  // namespace gpuplan\n")
  return()
endif()
if(CMAKE_SCRIPT_MODE_FILE)
  set(source "#include \"${HEADER}\"\n\nnamespace gpuplan {\n")
  while(TEXTS)
    list(POP_FRONT TEXTS function file)
    file(READ ${file} text)
    string(FIND "${text}" ")text\"" end)
    if(NOT end EQUAL -1)
      message(FATAL_ERROR "${file} contains the end of a raw string, )text\"")
    endif()
    string(APPEND source "\nstd::string_view ${function}() {\n  return R\"text(${text})text\";\n}\n")
  endwhile()
  file(WRITE ${OUT} "${source}\n}  // namespace gpuplan\n")
  return()
endif()

function(gpuplan_embed_text target)
  cmake_parse_arguments(ARG "" "HEADER" "TEXTS" ${ARGN})
  get_filename_component(name ${ARG_HEADER} NAME_WE)
  set(out ${CMAKE_BINARY_DIR}/embedded/${name}.cpp)
  set(files ${ARG_TEXTS})
  list(FILTER files INCLUDE REGEX "/")
  add_custom_command(OUTPUT ${out}
                     COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${ARG_HEADER} "-DTEXTS=${ARG_TEXTS}"
                             -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     COMMENT "Embedding ${ARG_HEADER}" VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

function(gpuplan_embed_files target)
  cmake_parse_arguments(ARG "" "HEADER;FUNCTION" "FILES" ${ARGN})
  set(out ${CMAKE_BINARY_DIR}/embedded/${ARG_FUNCTION}.cpp)
  add_custom_command(OUTPUT ${out}
                     COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${ARG_HEADER} -DFUNCTION=${ARG_FUNCTION} "-DFILES=${ARG_FILES}"
                             -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     DEPENDS ${ARG_FILES} ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     COMMENT "Embedding ${ARG_FUNCTION}" VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
