#include "cc/tf/runtime/spread.h"

namespace lms {
namespace {

constexpr int64_t kTile = 1024;  // elements, at most

// The dimension, counted from the last one; 1 where the shape has none there.
int64_t FromBehind(const std::vector<int64_t>& shape, size_t dim) {
  return dim < shape.size() ? shape[shape.size() - 1 - dim] : 1;
}

}  // namespace

std::optional<Spread> Spread::Of(const std::vector<std::vector<int64_t>>& shapes) {
  Spread spread;
  size_t rank = 0;
  for (const std::vector<int64_t>& shape : shapes) rank = std::max(rank, shape.size());
  std::vector<int64_t> common(rank, 1);  // from the last one on
  for (size_t d = 0; d < rank; ++d) {
    for (const std::vector<int64_t>& shape : shapes) {
      const int64_t size = FromBehind(shape, d);
      if (size == 1) continue;
      if (common[d] != 1 && common[d] != size) return std::nullopt;
      common[d] = size;
    }
    spread.elements_ *= common[d];
  }
  spread.shape_.assign(common.rbegin(), common.rend());
  if (spread.elements_ == 0) return spread;

  const size_t tensors = shapes.size();
  std::vector<int64_t> dims;  // from the last one on, likewise the next two
  std::vector<std::vector<bool>> has;
  for (size_t d = 0; d < rank; ++d) {
    if (common[d] == 1) continue;
    std::vector<bool> of(tensors);
    for (size_t i = 0; i < tensors; ++i) of[i] = FromBehind(shapes[i], d) != 1;
    if (!has.empty() && has.back() == of) {
      dims.back() *= common[d];
    } else {
      dims.push_back(common[d]);
      has.push_back(of);
    }
  }
  if (dims.empty()) {
    dims.push_back(1);
    has.emplace_back(tensors, true);
  }
  spread.dims_.assign(dims.rbegin(), dims.rend());

  // Whole rows, where they are short: what is the same for each row is the same for each tile then.
  const int64_t row = dims.front();
  const bool whole_rows = row <= kTile;
  spread.tile_ = std::min(whole_rows ? kTile / row * row : kTile, spread.elements_);
  for (size_t i = 0; i < tensors; ++i) {
    std::vector<int64_t> strides(dims.size(), 0);
    int64_t stride = 1;
    bool whole = true, same = true;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (has[d][i]) {
        strides[dims.size() - 1 - d] = stride;
        stride *= dims[d];
        same = same && d == 0 && whole_rows;
      } else {
        whole = false;
      }
    }
    if (whole) strides.clear();
    spread.strides_.push_back(std::move(strides));
    spread.same_.push_back(same);
  }
  return spread;
}

}  // namespace lms
