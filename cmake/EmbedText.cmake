# Files become functions of the program that return their text, as <header> declares them in namespace gpuplan, so that the program needs
# no files beside it.
# gpuplan_embed_files(<target> HEADER <header> FUNCTION <function> FILES <file>...): std::vector<PageFile> <function>(), a row with name and
# content for each.
# Run as a script (cmake -P), this file writes the source; as a module, it adds the rules.
if(CMAKE_SCRIPT_MODE_FILE)
  function(read_literal file)
    file(READ ${file} text)
    string(FIND "${text}" ")text\"" end)
    if(NOT end EQUAL -1)
      message(FATAL_ERROR "${file} contains the end of a raw string, )text\"")
    endif()
    set(literal "R\"text(${text})text\"" PARENT_SCOPE)
  endfunction()
  set(source "#include \"${HEADER}\"\n\nnamespace gpuplan {\n")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    read_literal(${file})
    string(APPEND rows "      {\"${name}\", ${literal}},\n")
  endforeach()
  if(FILES)
    string(APPEND source "\nstd::vector<PageFile> ${FUNCTION}() {\n  return {\n${rows}  };\n}\n")
  endif()
  file(WRITE ${OUT} "${source}\n}  // namespace gpuplan\n")
  return()
endif()

# Adds the rule for <name>.cpp: `words` go to the script, which reads `files`.
function(gpuplan_embed target name header words files)
  set(out ${CMAKE_BINARY_DIR}/embedded/${name}.cpp)
  add_custom_command(OUTPUT ${out}
                     COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${header} ${words} -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
                     COMMENT "Embedding ${name}" VERBATIM)
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # else a change of the page compiles a batch
  target_sources(${target} PRIVATE ${out})
endfunction()

function(gpuplan_embed_files target)
  cmake_parse_arguments(ARG "" "HEADER;FUNCTION" "FILES" ${ARGN})
  string(REPLACE ";" "\\;" files "${ARG_FILES}")
  gpuplan_embed(${target} ${ARG_FUNCTION} ${ARG_HEADER} "-DFUNCTION=${ARG_FUNCTION};-DFILES=${files}" "${ARG_FILES}")
endfunction()
