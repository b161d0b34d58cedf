// What loops hold, beyond what their ops read: in an import, a loop counts as one iteration (loops.h).
//
// Linear in nodes, for each of the loops that one is nested in.

#ifndef LMS_CC_TF_IMPORT_IMPORT_LOOPS_H_
#define LMS_CC_TF_IMPORT_IMPORT_LOOPS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the reads. What enters a loop and does not change there is held until the loop has ended, and what an iteration
// hands to the next one until that has taken it; and a buffer for what iterations that overlap hold besides.
void AddLoopReads(ImportState* state);

// What iterations of the loop may hold at worst beyond one of them, in bytes: all that their nodes make or read which
// need not have run when the next iteration begins. They may run side by side, or be left behind, even when the loop
// has ended. Much more than usual. 0 for less than matters. Asks for no buffers.
int64_t BytesAhead(const ImportState& state, int frame);

// Counts the ops in loops that hold what nobody can tell the size of.
void NoteUnknownLists(ImportState* state);

// Of a node in a loop: the Switch of a variable of the loop, or of a branch in it.
bool IsLoopSwitch(const tensorflow::NodeDef& node);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_LOOPS_H_
