// What plans do without, after one that could not be applied or that the verifier found unsound.
//
// A failure of one kind of change is no reason to give up the others. Kinds are left out one after the other, in the
// order of the enumeration, and only those that the failed plan has: each plan that is made anew is a different one,
// and there are at most kKinds of them.

#ifndef LMS_CC_CORE_SEARCH_RESTRAINT_H_
#define LMS_CC_CORE_SEARCH_RESTRAINT_H_

#include <array>
#include <string>

namespace lms {

enum class Change { kOrder, kMoves, kEdges, kSwaps, kRecomputations };

class Restraint {
 public:
  static constexpr int kKinds = 5;
  using Kinds = std::array<bool, kKinds>;  // by Change

  bool Allows(Change kind) const { return !left_out_[static_cast<int>(kind)]; }

  // Another order is one only as long as edges hold it.
  bool MayOrder() const { return Allows(Change::kOrder) && Allows(Change::kEdges); }

  void LeaveOut(Change kind) { left_out_[static_cast<int>(kind)] = true; }

  // Leaves out the first kind that a plan with `parts` failed with. False, and nothing is left out, where it has no
  // other kind beside those that must stay: without edges for its order a plan is what its recomputations are.
  bool Tighten(const Kinds& parts);

  // Of what was left out last: "another order", say.
  std::string Words() const;

 private:
  Kinds left_out_ = {};
  int last_ = -1;
};

}  // namespace lms

#endif  // LMS_CC_CORE_SEARCH_RESTRAINT_H_
