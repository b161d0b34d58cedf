#include "cc/tf/sizes/product_workspace.h"

#include <algorithm>

#include "cc/tf/sizes/sized_op.h"

namespace lms {

using tensorflow::DataType;

// One matrix for each thread that has any (AVX512_CORE; 1 to 4 threads, 1 to 48 matrices, either operand transposed).
int64_t ProductSums(DataType type, int64_t elements, int64_t matrices, const CpuKernels& kernels) {
  if (!kernels.SumsInFloat(type) || matrices < 1) return 0;
  const int64_t held = std::min<int64_t>(std::max(kernels.threads, 1), matrices);
  return Product(Product(elements / matrices, held), sizeof(float));
}

namespace {

constexpr int64_t kMostRows = 256, kBlockColumns = 64, kMostInner = 512;
constexpr int64_t kLine = 128;  // beside each copy, and a few times for each thread and once

int64_t Parts(int64_t value, int64_t by) { return (value + by - 1) / by; }
int64_t RoundedUp(int64_t value, int64_t to) { return Parts(value, to) * to; }

// Of a part of the rows, of which all have as many.
int64_t RowsAtATime(const MatrixShape& shape) { return Parts(shape.rows, Parts(shape.rows, kMostRows)); }

// Rows that are a power of two long would be in each other's way in the cache.
int64_t Apart(int64_t inner, int64_t step) { return inner % kMostInner == 0 ? inner + step : inner; }

// What each thread holds, and what is held once.
struct Blocks {
  int64_t each = 0;
  int64_t once = 0;
};

Blocks BlocksInRegisters(bool in_float, const MatrixShape& shape) {
  const int64_t element = in_float ? 4 : 2;
  const int64_t step = 64 / element;
  const int64_t rows = RowsAtATime(shape);
  const int64_t inner = std::min(RoundedUp(shape.inner, step), kMostInner);
  const bool long_inner = shape.inner > 2 * kMostInner;
  const bool copies_first = shape.first_transposed && shape.rows > 1 && shape.inner > 1;
  // Long rows of a power of two, or nearly one, are in each other's way in the cache.
  const bool crowded = in_float && shape.columns % 512 == 0 && shape.inner > 1;
  const bool strided = shape.second_transposed && shape.columns > 1 && shape.inner > 1;
  const bool copies_second = !in_float || crowded || strided;
  Blocks blocks{5 * kLine, kLine};
  if (copies_first) {
    blocks.each += rows * Apart(inner, step) * element;
    blocks.once += kLine;
  }
  if (copies_second) {
    const int64_t depth = long_inner && !copies_first ? 2 * kMostInner : inner;
    const bool all_columns = !in_float && copies_first && shape.inner > kMostInner;
    blocks.each += (all_columns ? std::min<int64_t>(shape.columns, 1024) : kBlockColumns) * depth * element;
    blocks.once += kLine;
  }
  if (!in_float && shape.inner > kMostInner) {
    blocks.each += rows * kBlockColumns * static_cast<int64_t>(sizeof(float));
    blocks.once += kLine;
  }
  return blocks;
}

// By avx512_fp16: both operands as float, and the sums of all columns where there are several parts of them.
Blocks BlocksOfHalf(const MatrixShape& shape) {
  constexpr int64_t kStep = 16;
  const bool long_inner = shape.inner > 2 * kMostInner && !shape.first_transposed;
  const int64_t inner = std::min(RoundedUp(shape.inner, kStep), long_inner ? 2 * kMostInner : kMostInner);
  const int64_t rows = RowsAtATime(shape);
  int64_t elements = rows * Apart(inner, kStep) + kBlockColumns * inner;
  if (shape.inner > kMostInner) elements += rows * RoundedUp(shape.columns, kBlockColumns);
  const int64_t sums = shape.inner > kMostInner ? kLine : 0;
  return {elements * static_cast<int64_t>(sizeof(float)) + 5 * kLine, 3 * kLine + sums};
}

// By AMX: as much of the operands as it adds up at a time, which is all of `inner` where that is 1,024 at most.
Blocks BlocksInTiles(const MatrixShape& shape) {
  constexpr int64_t kStep = 32, kElement = 2, kTiles = 4096;
  constexpr int64_t kLeastOfMore = 393216, kMost = 733312;
  const int64_t inner = RoundedUp(shape.inner, kStep);
  int64_t copies = Product(kBlockColumns * kElement, inner);
  if (shape.inner > 2 * kMostInner) copies = std::max(copies, kLeastOfMore);
  const bool copies_first = shape.first_transposed && shape.rows > 1 && shape.inner > 1;
  if (copies_first) {
    const int64_t rows = std::min(RoundedUp(shape.rows, kBlockColumns), kMostRows);
    copies = Product(kElement, Product(rows, Apart(inner, kStep)) + Product(kBlockColumns, inner));
  }
  const int64_t tail = inner > shape.inner ? 1024 : 0;
  return {std::min(copies, kMost) + tail + kTiles + 5 * kLine, (copies_first ? 4 : 3) * kLine};
}

}  // namespace

int64_t ProductBlocks(DataType type, const MatrixShape& shape, const CpuKernels& kernels) {
  if (!kernels.OneDnn(type) || kernels.SumsInFloat(type)) return 0;
  if (shape.matrices < 1 || shape.rows < 1 || shape.inner < 1 || shape.columns < 1) return 0;
  const bool in_tiles = type == tensorflow::DT_BFLOAT16 && kernels.amx_bfloat16;
  const Blocks blocks = type == tensorflow::DT_HALF ? BlocksOfHalf(shape)
                        : in_tiles                  ? BlocksInTiles(shape)
                                                    : BlocksInRegisters(type == tensorflow::DT_FLOAT, shape);
  const int64_t tasks =
      Product(Product(shape.matrices, Parts(shape.rows, kMostRows)), Parts(shape.columns, kBlockColumns));
  const int64_t threads = std::min<int64_t>(std::max(kernels.threads, 1), tasks);
  return Product(blocks.each, threads) + blocks.once;
}

}  // namespace lms
