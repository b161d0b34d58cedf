# Finds pybind11 where the build's Python has it (the PyPI package), unless pybind11_DIR is given.
set(PYBIND11_FINDPYTHON ON)
if(NOT pybind11_DIR OR NOT EXISTS "${pybind11_DIR}")
  unset(pybind11_DIR CACHE)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
    OUTPUT_VARIABLE _pybind11_dir
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _pybind11_status
    ERROR_QUIET)
  if(NOT _pybind11_status EQUAL 0)
    message(FATAL_ERROR
      "${Python_EXECUTABLE} has no pybind11: ${Python_EXECUTABLE} -m pip install pybind11")
  endif()
  set(pybind11_DIR "${_pybind11_dir}" CACHE PATH "pybind11's CMake files" FORCE)
endif()
find_package(pybind11 2.11 CONFIG REQUIRED)
