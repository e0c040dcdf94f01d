# Installs a build, moves what was installed, builds and runs the consumer beside this file with it.
#   cmake -DBUILD=... -DCONFIG=... -DVERSION=0.1.0 -DWORK=... "-DCONFIGURE=-G;Ninja;..." -P installed.cmake
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --build ${BUILD} --config "${CONFIG}" --target coda coda_all)
run(${CMAKE_COMMAND} --install ${BUILD} --config "${CONFIG}" --prefix ${WORK}/made)
file(RENAME ${WORK}/made ${WORK}/moved)
file(GLOB folders RELATIVE ${WORK}/moved ${WORK}/moved/*)
if(NOT folders MATCHES "^bin;include;lib(64)?;share$")
  message(FATAL_ERROR "installed: got the folders ${folders}, expected bin, include, lib and share")
endif()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build ${CONFIGURE} -DCMAKE_PREFIX_PATH=${WORK}/moved
    -DCODA_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${WORK}/build --config "${CONFIG}")
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build -C "${CONFIG}" --output-on-failure --no-tests=error)

execute_process(COMMAND ${WORK}/moved/bin/coda --version OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed STREQUAL "coda ${VERSION}\n")
  message(FATAL_ERROR "installed: coda --version printed '${printed}', expected 'coda ${VERSION}'")
endif()
