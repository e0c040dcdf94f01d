# The extension coda_cpp._core, from python/bind. In a checkout it is built into the package folder itself, so that
# python/ on the path is the whole package; an installed build puts it into the wheel.
if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB bind_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/bind/*.cpp)
nanobind_add_module(_core NB_STATIC ${bind_sources})
target_include_directories(_core PRIVATE ${PROJECT_SOURCE_DIR}/python ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(_core PRIVATE CODA_VERSION="${PROJECT_VERSION}")
target_link_libraries(_core PRIVATE coda_cli coda_warnings)
# Where the C++ library is linked statically, half of its symbols would otherwise be those another extension brought.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(_core PRIVATE -Wl,--exclude-libs,ALL)
endif()
if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION coda_cpp)
else()
  set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_SOURCE_DIR}/python/coda_cpp)
endif()
