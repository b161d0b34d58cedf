#include "cc/core/search/restraint.h"

namespace lms {

bool Restraint::Tighten(const Kinds& parts) {
  int others = 0;
  for (int kind = 0; kind < kKinds; ++kind) others += parts[kind] && !left_out_[kind] ? 1 : 0;
  if (others < 2) return false;
  for (int kind = 0; kind < kKinds; ++kind) {
    if (!parts[kind] || left_out_[kind]) continue;
    left_out_[kind] = true;
    last_ = kind;
    return true;
  }
  return false;
}

std::string Restraint::Words() const {
  static constexpr const char* kWords[kKinds] = {"another order of operations", "moves", "edges that hold the order",
                                                 "swaps", "recomputations"};
  return last_ < 0 ? "" : kWords[last_];
}

}  // namespace lms
