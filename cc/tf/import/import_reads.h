// Who reads and who changes the buffers of an import.
//
// All need the ops and the buffers, and are to be called in this order, with what loops hold (import_loops.h) after the
// first.
// Linear in nodes and inputs.

#ifndef LMS_CC_TF_IMPORT_IMPORT_READS_H_
#define LMS_CC_TF_IMPORT_IMPORT_READS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Inputs of the ops and which of them they may take over, which buffers escape, and what the way in which a buffer is
// read says against its eviction.
void AddReads(ImportState* state);

// Which ops may put their results where rows of a larger tensor are (cc/core/graph/takeovers.h), and what these hold in
// the order of the ops.
void AddTakeovers(ImportState* state);

// Which ops change a variable in place, of those that copies must or might wait to be before.
void AddVariableWrites(ImportState* state);

// Who holds the storage of variables that the step changes. One for each input that does.
void AddHeldReads(ImportState* state);

// After the above: those who read what a variable holds after an update of the same step (a second network's turn, a
// second update) read a buffer of its own instead, of no bytes, which only later updates overwrite. So they may be
// computed again until then. For each such read some thousand nodes are looked at, at most.
void AddVersions(ImportState* state);

// Last of all, where there are loops or several regions are planned: nodes of each region read a variable as a buffer
// of its own, of no bytes, which only those updates overwrite that copies in that region must or might wait to be
// before.
void AddVersionsOfRegions(ImportState* state);

// Might the variable change under a copy in that region, which cannot be kept behind the change?
bool MayChangeUnderCopies(const ImportState& state, BufferId variable, int region);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_IMPORT_READS_H_
