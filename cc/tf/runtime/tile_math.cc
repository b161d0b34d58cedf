#include "cc/tf/runtime/tile_math.h"

#include <cstring>

namespace lms {
namespace {

// As many elements as the widest registers hold; compilers cut it up where registers are narrower.
template <typename T>
struct Wide {
  static constexpr int64_t kElements = 32 / sizeof(T);
  typedef T Type __attribute__((vector_size(32)));
};

template <ElementwiseKind kind, typename V>
inline __attribute__((always_inline)) void Combine(const V& left, const V& right, V* to) {
  if constexpr (kind == ElementwiseKind::kAdd) *to = left + right;
  if constexpr (kind == ElementwiseKind::kSub) *to = left - right;
  if constexpr (kind == ElementwiseKind::kMul) *to = left * right;
  if constexpr (kind == ElementwiseKind::kDiv) *to = left / right;
  if constexpr (kind == ElementwiseKind::kNeg) *to = -left;
}

template <ElementwiseKind kind, typename T>
inline __attribute__((always_inline)) void Loop(const T* left, const T* right, int64_t count, T* to) {
  using V = typename Wide<T>::Type;
  int64_t i = 0;
  for (; i + Wide<T>::kElements <= count; i += Wide<T>::kElements) {
    V a, b, c;
    std::memcpy(&a, left + i, sizeof(V));
    std::memcpy(&b, right + i, sizeof(V));
    Combine<kind>(a, b, &c);
    std::memcpy(to + i, &c, sizeof(V));
  }
  for (; i < count; ++i) Combine<kind>(left[i], right[i], to + i);
}

template <typename T>
inline __attribute__((always_inline)) void LoopOf(ElementwiseKind kind, const T* left, const T* right, int64_t count,
                                                  T* to) {
  switch (kind) {
    case ElementwiseKind::kAdd:
      return Loop<ElementwiseKind::kAdd>(left, right, count, to);
    case ElementwiseKind::kSub:
      return Loop<ElementwiseKind::kSub>(left, right, count, to);
    case ElementwiseKind::kMul:
      return Loop<ElementwiseKind::kMul>(left, right, count, to);
    case ElementwiseKind::kDiv:
      return Loop<ElementwiseKind::kDiv>(left, right, count, to);
    case ElementwiseKind::kNeg:
      return Loop<ElementwiseKind::kNeg>(left, left, count, to);
  }
}

#if defined(__x86_64__)
// The same code, for registers that every processor of the last ten years has, and not every compiler may count on.
template <typename T>
__attribute__((target("avx2"))) void LoopOfAvx2(ElementwiseKind kind, const T* left, const T* right, int64_t count,
                                                T* to) {
  LoopOf(kind, left, right, count, to);
}

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

template <typename T>
void ComputeOn(ElementwiseKind kind, const T* left, const T* right, int64_t count, T* to) {
#if defined(__x86_64__)
  if (HasAvx2()) return LoopOfAvx2(kind, left, right, count, to);
#endif
  LoopOf(kind, left, right, count, to);
}

}  // namespace

void ComputeTile(ElementwiseKind kind, const float* left, const float* right, int64_t count, float* to) {
  ComputeOn(kind, left, right, count, to);
}

void ComputeTile(ElementwiseKind kind, const double* left, const double* right, int64_t count, double* to) {
  ComputeOn(kind, left, right, count, to);
}

}  // namespace lms
