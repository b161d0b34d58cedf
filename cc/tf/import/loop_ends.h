// What a loop still holds once its results have left it.
//
// The executor goes through the body once more when a loop has ended, with dead inputs, and lets go of what entered it
// unchanged after that. Meanwhile others read the results. Where kernels take threads, as on a CPU with several, those
// are the results' own readers: what is dead takes little time. (Without those among them that wait for more, two
// bidirectional LSTMs at "min" took up to 1.03 of their budget.) Where kernels are all cheap to start, as on a GPU,
// what is dead and what reads the results take turns, level by level, a level being what waits for the one before: so
// many of them are beside what the loop holds as its body is deep.

#ifndef LMS_CC_TF_IMPORT_LOOP_ENDS_H_
#define LMS_CC_TF_IMPORT_LOOP_ENDS_H_

#include "cc/tf/import/import_state.h"

namespace lms {

// Needs the reads, those of loops (import_loops.h) and of variables (AddHeldReads). Such readers have what the loop
// holds as workspace. Variables whose values entered it, in lists too, are copied by updates of that time: such reads
// are held until the last of these readers has ended. Nothing is done for a CPU with one thread, where what is dead is
// through at once. O(n + e) for each loop that something enters unchanged.
void HoldWhileLoopsEnd(int threads, ImportState* state);

}  // namespace lms

#endif  // LMS_CC_TF_IMPORT_LOOP_ENDS_H_
