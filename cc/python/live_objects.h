// The objects of a Python process, by type.

#ifndef LMS_CC_PYTHON_LIVE_OBJECTS_H_
#define LMS_CC_PYTHON_LIVE_OBJECTS_H_

#include <pybind11/pybind11.h>

namespace lms {

// The objects that Python's garbage collector tracks and whose type is one of `types` (exactly: no subclasses).
//
// No other thread runs Python while all objects are held. In Python itself, `gc.get_objects()` hands over to other
// threads now and then, and holds their half-made tuples meanwhile: `tuple(generator)` raises SystemError there
// ("bad argument to internal function"), because it may not shorten a tuple that somebody else holds.
//
// Raises what gc.get_objects() raises: MemoryError.
pybind11::list LiveObjects(const pybind11::set& types);

}  // namespace lms

#endif  // LMS_CC_PYTHON_LIVE_OBJECTS_H_
