# Device code as text inside the library: every src/cuda/device/**/*.cuh becomes raw string literals of one generated
# source, which defines what src/cuda/compile/device_files.h declares.
#
#   embed_device_files(target)    adds that source to a target
#
# The file is also the script that writes the source when a device file changed:
#   cmake -DFOLDER=... -DFILES=a.cuh|sm90/b.cuh -DOUTPUT=... -P embed_device_files.cmake

# Some compilers refuse a literal of 64 KiB or more: longer texts become neighbours, cut at a line's end.
set(longest_literal 16000)

# Appends one file's entry to the source in the variable `result`.
function(append_device_file result folder path)
  file(READ "${folder}/${path}" text)
  string(FIND "${text}" ")cuh\"" closing)
  if(NOT closing EQUAL -1)
    message(FATAL_ERROR "embed_device_files: ${folder}/${path} contains )cuh\", which ends its literal")
  endif()
  string(APPEND entry "    {\"${path}\", ")
  string(LENGTH "${text}" left)
  while(left GREATER longest_literal)
    string(SUBSTRING "${text}" 0 ${longest_literal} piece)
    string(FIND "${piece}" "\n" end REVERSE)
    if(end EQUAL -1)
      message(FATAL_ERROR "embed_device_files: ${folder}/${path} has a line of ${longest_literal} bytes or more")
    endif()
    math(EXPR end "${end} + 1")
    string(SUBSTRING "${text}" 0 ${end} piece)
    string(SUBSTRING "${text}" ${end} -1 text)
    string(APPEND entry "R\"cuh(${piece})cuh\"\n     ")
    string(LENGTH "${text}" left)
  endwhile()
  string(APPEND entry "R\"cuh(${text})cuh\"},\n")
  set(${result} "${${result}}${entry}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  string(CONCAT source "// Written by cmake/embed_device_files.cmake.\n#include \"cuda/compile/device_files.h\"\n\n"
                       "namespace coda::cuda {\nnamespace {\n\nconstexpr DeviceFile kFiles[] = {\n")
  string(REPLACE "|" ";" files "${FILES}")
  foreach(path IN LISTS files)
    append_device_file(source "${FOLDER}" "${path}")
  endforeach()
  string(APPEND source "};\n\n}  // namespace\n\n"
                       "std::span<const DeviceFile> device_files() { return kFiles; }\n\n}  // namespace coda::cuda\n")
  file(WRITE "${OUTPUT}" "${source}")
  return()
endif()

function(embed_device_files target)
  set(folder ${PROJECT_SOURCE_DIR}/src/cuda/device)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/device_files.cpp)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.cuh)
  list(SORT files)
  list(TRANSFORM files PREPEND ${folder}/ OUTPUT_VARIABLE inputs)
  string(JOIN "|" joined ${files})
  # The names are in the command, so that a removed file, too, makes it run again.
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} "-DFILES=${joined}" -DOUTPUT=${output}
            -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    DEPENDS ${inputs} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    COMMENT "Embedding src/cuda/device"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
