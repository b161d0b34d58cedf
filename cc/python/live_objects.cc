#include "cc/python/live_objects.h"

#include <pybind11/pybind11.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lms {

py::list LiveObjects(const py::set& types) {
  std::unordered_set<const PyObject*> wanted;
  for (const py::handle type : types) wanted.insert(type.ptr());
  const py::object get_objects = py::module_::import("gc").attr("get_objects");
  std::vector<py::object> found;
  {
    // From here to the bracket nothing runs Python code, and nothing makes an object: either could let another
    // thread go on.
    const py::object all = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(get_objects.ptr()));
    if (!all) throw py::error_already_set();
    const Py_ssize_t count = PyList_GET_SIZE(all.ptr());
    for (Py_ssize_t at = 0; at < count; ++at) {
      PyObject* const object = PyList_GET_ITEM(all.ptr(), at);
      const auto* const type = reinterpret_cast<const PyObject*>(Py_TYPE(object));
      if (wanted.count(type) > 0) found.push_back(py::reinterpret_borrow<py::object>(object));
    }
  }
  py::list result;
  for (py::object& object : found) result.append(std::move(object));
  return result;
}

}  // namespace lms
