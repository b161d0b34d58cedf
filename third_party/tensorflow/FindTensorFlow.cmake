# Finds the TensorFlow that is installed for Python_EXECUTABLE.
#
# TensorFlow is imported once, by query.py beside this file. The answer is kept in the build
# directory and used again until the interpreter or TensorFlow's library changes.
#
# Gives
#   TensorFlow_VERSION, TensorFlow_COMPILER (what TensorFlow was built with),
#   TensorFlow_LIBRARY_DIR, TensorFlow_INCLUDE_DIR, TensorFlow_CXX11_ABI
#   TensorFlow::framework   headers, definitions, language level, libtensorflow_framework
#   TensorFlow::cc          the same and libtensorflow_cc; for programs outside Python
# No target adds a run-time search path: in Python, TensorFlow is loaded before.

set(_tf_answer "${CMAKE_CURRENT_BINARY_DIR}/tensorflow_query.json")
set(_tf_key_file "${CMAKE_CURRENT_BINARY_DIR}/tensorflow_query.key")

# What the stored answer depends on: the interpreter, and the library it found then.
function(_tf_query_key answer result)
  string(JSON library_dir ERROR_VARIABLE error GET "${answer}" library_dir)
  string(JSON library ERROR_VARIABLE error GET "${answer}" framework_library)
  if(error OR NOT EXISTS "${library_dir}/${library}")
    set(${result} "" PARENT_SCOPE)
    return()
  endif()
  file(SIZE "${library_dir}/${library}" size)
  file(TIMESTAMP "${library_dir}/${library}" time UTC)
  file(SHA256 "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/query.py" query)
  set(${result} "${Python_EXECUTABLE} ${library_dir} ${size} ${time} ${query}" PARENT_SCOPE)
endfunction()

set(_tf_json "")
if(EXISTS "${_tf_answer}" AND EXISTS "${_tf_key_file}")
  file(READ "${_tf_answer}" _tf_json)
  file(READ "${_tf_key_file}" _tf_key)
  _tf_query_key("${_tf_json}" _tf_key_now)
  if(NOT _tf_key_now STREQUAL _tf_key)
    set(_tf_json "")
  endif()
endif()

if(NOT _tf_json)
  message(STATUS "Asking ${Python_EXECUTABLE} for TensorFlow")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/query.py"
    WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
    RESULT_VARIABLE _tf_status
    OUTPUT_VARIABLE _tf_json
    ERROR_VARIABLE _tf_error)
  if(_tf_status EQUAL 0)
    _tf_query_key("${_tf_json}" _tf_key_now)
    file(WRITE "${_tf_answer}" "${_tf_json}")
    file(WRITE "${_tf_key_file}" "${_tf_key_now}")
  else()
    set(_tf_json "")
    string(REGEX REPLACE "\n+$" "" _tf_error "${_tf_error}")
    string(REGEX REPLACE "^.*\n" "" _tf_error "${_tf_error}")
    set(_tf_error
        "${Python_EXECUTABLE} cannot import tensorflow (${_tf_error}). Install it there, or name another interpreter with -DPython_EXECUTABLE=…")
  endif()
endif()

if(_tf_json)
  foreach(_tf_pair IN ITEMS
          VERSION:version COMPILER:compiler LIBRARY_DIR:library_dir INCLUDE_DIR:include_dir
          CXX11_ABI:cxx11_abi CXX_STANDARD:cxx_standard DEFINITIONS:definitions
          FRAMEWORK_LIBRARY:framework_library)
    string(REPLACE ":" ";" _tf_pair "${_tf_pair}")
    list(GET _tf_pair 0 _tf_name)
    list(GET _tf_pair 1 _tf_member)
    string(JSON TensorFlow_${_tf_name} GET "${_tf_json}" ${_tf_member})
  endforeach()
  set(TensorFlow_FRAMEWORK_LIBRARY "${TensorFlow_LIBRARY_DIR}/${TensorFlow_FRAMEWORK_LIBRARY}")
  string(REPLACE "libtensorflow_framework" "libtensorflow_cc" TensorFlow_CC_LIBRARY
                 "${TensorFlow_FRAMEWORK_LIBRARY}")
  # A TensorFlow that is upgraded in place makes the next build configure again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               "${TensorFlow_FRAMEWORK_LIBRARY}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  TensorFlow
  REQUIRED_VARS TensorFlow_FRAMEWORK_LIBRARY TensorFlow_INCLUDE_DIR
  VERSION_VAR TensorFlow_VERSION
  REASON_FAILURE_MESSAGE "${_tf_error}")

if(TensorFlow_FOUND AND NOT TARGET TensorFlow::framework)
  add_library(TensorFlow::framework SHARED IMPORTED)
  set_target_properties(TensorFlow::framework PROPERTIES
    IMPORTED_LOCATION "${TensorFlow_FRAMEWORK_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TensorFlow_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "${TensorFlow_DEFINITIONS}"
    INTERFACE_COMPILE_FEATURES "cxx_std_${TensorFlow_CXX_STANDARD}")
  if(EXISTS "${TensorFlow_CC_LIBRARY}")
    add_library(TensorFlow::cc SHARED IMPORTED)
    set_target_properties(TensorFlow::cc PROPERTIES
      IMPORTED_LOCATION "${TensorFlow_CC_LIBRARY}"
      INTERFACE_LINK_LIBRARIES TensorFlow::framework)
  endif()
endif()
