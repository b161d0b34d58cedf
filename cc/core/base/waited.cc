#include "cc/core/base/waited.h"

namespace lms {
namespace {

thread_local double waited = 0;

}  // namespace

void AddWaited(double seconds) { waited += seconds; }

double Waited() { return waited; }

}  // namespace lms
