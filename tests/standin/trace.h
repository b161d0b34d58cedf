// What the streams did and when, as a file that chrome://tracing and ui.perfetto.dev open (STANDIN_TRACE names it):
// a row for each stream, kernels by the node's name, copies by way and bytes, waits for other streams. Thread-safe.

#ifndef LMS_TESTS_STANDIN_TRACE_H_
#define LMS_TESTS_STANDIN_TRACE_H_

#include <string>

#include "tests/standin/stream.h"

namespace standin {

bool Tracing();
void Trace(const SP_Stream_st* stream, const std::string& name, Clock::time_point begin, Clock::time_point end);

}  // namespace standin

#endif  // LMS_TESTS_STANDIN_TRACE_H_
