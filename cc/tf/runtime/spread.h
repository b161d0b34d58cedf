// Tensors that are broadcast to one shape, tile by tile.
//
// A tile is so many elements of the common shape that follow each other in memory. Of a tensor that has the common
// shape it is a part of its memory. Of others it is a copy: made once where every tile has the same one (a factor for
// each channel, a number), else made anew for each.

#ifndef LMS_CC_TF_RUNTIME_SPREAD_H_
#define LMS_CC_TF_RUNTIME_SPREAD_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace lms {

class Spread {
 public:
  // Nothing where the shapes do not go together, as numpy has it.
  static std::optional<Spread> Of(const std::vector<std::vector<int64_t>>& shapes);

  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  int64_t tile() const { return tile_; }  // elements; the last one may have fewer
  int64_t tiles() const { return (elements_ + tile_ - 1) / tile_; }

  // Is a tile of the tensor a part of its memory; the same for all tiles?
  bool IsWhole(int tensor) const { return strides_[tensor].empty(); }
  bool IsSame(int tensor) const { return same_[tensor]; }

  // Copies `count` elements from the common shape's element `first` on.
  template <typename T>
  void Copy(int tensor, const T* from, int64_t first, int64_t count, T* to) const {
    const std::vector<int64_t>& strides = strides_[tensor];
    const int64_t row = dims_.back();
    while (count > 0) {
      // Where the row of `first` lies in the tensor.
      int64_t at = 0, rest = first / row;
      for (size_t d = dims_.size() - 1; d-- > 0; rest /= dims_[d]) at += rest % dims_[d] * strides[d];
      const int64_t column = first % row;
      const int64_t taken = std::min(count, row - column);
      if (strides.back() == 0) {
        std::fill(to, to + taken, from[at]);
      } else {
        std::copy(from + at + column, from + at + column + taken, to);
      }
      first += taken;
      to += taken;
      count -= taken;
    }
  }

 private:
  std::vector<int64_t> shape_;
  int64_t elements_ = 1;
  int64_t tile_ = 1;
  // The common shape with dimensions that no tensor tells apart made one; at least one is left.
  std::vector<int64_t> dims_;
  std::vector<std::vector<int64_t>> strides_;  // per tensor, by these dimensions; empty where it is whole
  std::vector<bool> same_;
};

// The tensors' tiles at one place after the other.
template <typename T>
class SpreadInputs {
 public:
  SpreadInputs(const Spread& spread, const std::vector<const T*>& tensors)
      : spread_(spread), tensors_(tensors), at_(tensors.size()), copies_(tensors.size()) {
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      if (spread.IsWhole(i)) continue;
      copies_[i].resize(spread.tile());
      at_[i] = copies_[i].data();
      if (spread.IsSame(i)) {
        spread.Copy(i, tensors[i], 0, std::min(spread.tile(), spread.elements()), copies_[i].data());
      }
    }
  }

  void MoveTo(int64_t first, int64_t count) {
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
      if (spread_.IsWhole(i)) {
        at_[i] = tensors_[i] + first;
      } else if (!spread_.IsSame(i)) {
        spread_.Copy(i, tensors_[i], first, count, copies_[i].data());
      }
    }
  }

  const T* at(int tensor) const { return at_[tensor]; }

 private:
  const Spread& spread_;
  const std::vector<const T*>& tensors_;
  std::vector<const T*> at_;
  std::vector<std::vector<T>> copies_;
};

}  // namespace lms

#endif  // LMS_CC_TF_RUNTIME_SPREAD_H_
