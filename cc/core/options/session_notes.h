// What the runs of a v1 session have shown of sizes that its graph leaves unknown, and which of its steps run in parts.
//
// A session's configuration is fixed when it is made, long before it is fed. So its entry holds a name, under which
// what is fed, and what datasets hand out, is noted here before each run; graphs are optimised in the first run of each
// kind.
//
// Thread-safety: all functions.

#ifndef LMS_CC_CORE_OPTIONS_SESSION_NOTES_H_
#define LMS_CC_CORE_OPTIONS_SESSION_NOTES_H_

#include <string>

#include "cc/core/options/argument_sizes.h"

namespace lms {

// `text`: as the option unknown_dim has it, "images:0=64,labels:0=64"; takes the place of what was noted before, and ""
// of all. Returns the problem with it, or "".
std::string NoteSessionSizes(const std::string& session, const std::string& text);

// Adds what was noted of it; what is there already goes before.
void AddSessionSizes(const std::string& session, UnknownDim* sizes);

// A step of the session is, or is no more, being made ready to run in parts (Session.partial_run): each part is fed for
// itself, and must not wait for an op that needs what is fed to a later one.
void NoteStepInParts(const std::string& session, bool begins);

bool MakesStepInParts(const std::string& session);

}  // namespace lms

#endif  // LMS_CC_CORE_OPTIONS_SESSION_NOTES_H_
