#include "cc/tf/sizes/product_workspace.h"

#include <gtest/gtest.h>

#include "tests/cc/tf/sizes/ops_of_kernels.h"

namespace lms {
namespace {

using tensorflow::DataType;
using testing::Amx;
using testing::Avx2;
using testing::Avx512;
using testing::Avx512Fp16;
using testing::AvxNeConvert;
using testing::Dims;
using testing::kBfloat16;
using testing::kFloat;
using testing::kHalf;
using testing::Measured;
using testing::Op;
using testing::WithoutOneDnn;

TEST(ProductWorkspace, ProductsOfHalvesAreComputedInFloat) {
  const auto product = [](DataType type) {
    return Op("MatMul").In(type, {256, 512}).In(type, {512, 1024}).Out(type, {256, 1024});
  };
  EXPECT_EQ(product(kHalf).Workspace(), (256 * 512 + 512 * 1024 + 256 * 1024) * 4);
  EXPECT_EQ(product(kFloat).Workspace(), 0);
  EXPECT_EQ(product(kBfloat16).Workspace(WithoutOneDnn()), (256 * 512 + 512 * 1024 + 256 * 1024) * 4);
  EXPECT_EQ(Op("BatchMatMulV2").In(kHalf, {8, 128, 256}).In(kHalf, {256, 512}).Out(kHalf, {8, 128, 512}).Workspace(),
            (8 * 128 * 256 + 256 * 512 + 8 * 128 * 512) * 4);
}

TEST(ProductWorkspace, ProductsWithoutInstructionsForTheTypeAddUpInFloat) {
  const auto product = [](DataType type, const CpuKernels& kernels) {
    return Op("MatMul").In(type, {300, 700}).In(type, {700, 500}).Out(type, {300, 500}).Workspace(kernels);
  };
  // Measured: 600,192, with 1, 2 and 4 threads.
  for (const int threads : {1, 2, 4}) EXPECT_EQ(product(kBfloat16, Avx512(threads)), 300 * 500 * 4);
  EXPECT_EQ(product(kBfloat16, AvxNeConvert()), 300 * 500 * 4);
  EXPECT_EQ(product(kHalf, AvxNeConvert()), 300 * 500 * 4);
  // In registers: copies of blocks alone.
  EXPECT_LT(product(kBfloat16, Avx512Fp16()), 300 * 500 * 4);
  EXPECT_EQ(product(kFloat, Avx512()), 0);
  constexpr int64_t kCopies = (300 * 700 + 700 * 500 + 300 * 500) * 4;
  EXPECT_EQ(product(kBfloat16, Avx2()), kCopies);
  EXPECT_EQ(product(kHalf, Avx512()), kCopies);
  // A matrix for each thread: measured 36,992, 73,856 and 147,584 of 12 matrices; 110,720 of 3.
  const auto batch = [](int64_t matrices, int threads) {
    return Op("BatchMatMulV2")
        .In(kBfloat16, {matrices, 96, 160})
        .In(kBfloat16, {160, 96})
        .Out(kBfloat16, {matrices, 96, 96})
        .Workspace(Avx512(threads));
  };
  EXPECT_EQ(batch(12, 1), 96 * 96 * 4);
  EXPECT_EQ(batch(12, 2), 2 * 96 * 96 * 4);
  EXPECT_EQ(batch(12, 4), 4 * 96 * 96 * 4);
  EXPECT_EQ(batch(3, 4), 3 * 96 * 96 * 4);
  EXPECT_EQ(batch(0, 4), 0);
  EXPECT_EQ(Op("MatMul").Workspace(Avx512()), 0);
}

// Measured: 196,736 and 16,777,344, with and without instructions for the type; 384 for one row of 64.
TEST(ProductWorkspace, ProductsWithABiasAddUpInFloat) {
  const auto product = [](DataType type, int64_t rows, int64_t columns, const CpuKernels& kernels) {
    return Op("_FusedMatMul")
        .In(type, {rows, 128})
        .In(type, {128, columns})
        .Out(type, {rows, columns})
        .Workspace(kernels);
  };
  for (const CpuKernels& kernels : {Measured(), Avx512()}) {
    EXPECT_EQ(product(kBfloat16, 512, 96, kernels), 196736);
    EXPECT_EQ(product(kBfloat16, 4096, 1024, kernels), 16777344);
    EXPECT_EQ(product(kBfloat16, 1, 64, kernels), 384);
    EXPECT_EQ(product(kFloat, 512, 96, kernels), 0);
  }
  EXPECT_EQ(product(kBfloat16, 512, 96, Avx2()), (512 * 128 + 128 * 96 + 512 * 96) * 4);
  for (const CpuKernels& kernels : {Avx512Fp16(), Amx()}) {
    EXPECT_EQ(product(kBfloat16, 512, 96, kernels), 196736);
    EXPECT_EQ(product(kHalf, 512, 96, kernels), 0);  // oneDNN's reference
  }
}

// Measured on an AMD EPYC with avx512_bf16, one thread.
TEST(ProductWorkspace, ProductsCopyBlocksOfTheirOperands) {
  CpuKernels kernels = Measured();
  kernels.threads = 1;
  const auto blocks = [&](DataType type, const Dims& dims, bool first, bool second) {
    return ProductBlocks(type, {4, dims[0], dims[1], dims[2], first, second}, kernels);
  };
  const auto of_float = [&](const Dims& dims) {
    return Dims{blocks(kFloat, dims, false, false), blocks(kFloat, dims, false, true),
                blocks(kFloat, dims, true, false), blocks(kFloat, dims, true, true)};
  };
  EXPECT_EQ(of_float({512, 256, 64}), Dims({768, 66432, 263040, 328704}));
  EXPECT_EQ(of_float({256, 1024, 96}), Dims({768, 131968, 541568, 672768}));
  EXPECT_EQ(of_float({96, 1024, 256}), Dims({768, 131968, 203648, 334848}));
  EXPECT_EQ(of_float({1024, 1024, 1024}), Dims({131968, 131968, 672768, 672768}));
  EXPECT_EQ(of_float({64, 2048, 64}), Dims({768, 263040, 136064, 267264}));
  EXPECT_EQ(of_float({300, 64, 64}), Dims({768, 17280, 39296, 55808}));
  EXPECT_EQ(of_float({100, 48, 30}), Dims({768, 13184, 20096, 32512}));
  EXPECT_EQ(of_float({197, 197, 64}), Dims({768, 54144, 164800, 218176}));
  EXPECT_EQ(of_float({1, 512, 512}), Dims({131968, 131968, 131968, 131968}));
  EXPECT_EQ(of_float({512, 512, 1}), Dims({768, 768, 541568, 541568}));
  EXPECT_EQ(of_float({64, 1, 64}), Dims({768, 768, 768, 768}));
  const auto of_bfloat16 = [&](const Dims& dims) {
    return Dims{blocks(kBfloat16, dims, false, false), blocks(kBfloat16, dims, true, false)};
  };
  EXPECT_EQ(of_bfloat16({512, 256, 64}), Dims({33664, 164864}));
  EXPECT_EQ(of_bfloat16({256, 300, 64}), Dims({41856, 205824}));
  EXPECT_EQ(of_bfloat16({1536, 384, 384}), Dims({50048, 246784}));
  EXPECT_EQ(of_bfloat16({128, 512, 512}), Dims({66432, 205824}));
  EXPECT_EQ(of_bfloat16({1024, 1024, 1024}), Dims({132096, 1393792}));
  EXPECT_EQ(blocks(kBfloat16, {64, 2048, 64}, false, false), 148480);
  // More than half of K: not exact. Measured: 476,288.
  EXPECT_EQ(blocks(kBfloat16, {256, 1024, 96}, true, false), 443520);
  // Two threads; as many as have something to do.
  kernels.threads = 2;
  EXPECT_EQ(blocks(kFloat, {256, 512, 64}, true, true), 1345152);
  EXPECT_EQ(blocks(kFloat, {100, 48, 30}, false, true), 26112);
  EXPECT_EQ(ProductBlocks(kFloat, {1, 100, 48, 30, false, true}, kernels), 13184);
  // TensorFlow's own kernel.
  EXPECT_EQ(blocks(kHalf, {512, 256, 64}, true, true), 0);
  EXPECT_EQ(ProductBlocks(kFloat, {1, 512, 256, 64, true, true}, WithoutOneDnn()), 0);
}

// Measured on an Intel Xeon with avx512_fp16 and amx_bf16, one thread.
TEST(ProductWorkspace, ProductsOfHalfCopyBothOperandsAsFloat) {
  const auto blocks = [](const Dims& dims, bool first, bool second) {
    CpuKernels kernels = Avx512Fp16();
    kernels.threads = 1;
    return ProductBlocks(kHalf, {1, dims[0], dims[1], dims[2], first, second}, kernels);
  };
  const auto whatever_is_transposed = [&](const Dims& dims, int64_t bytes) {
    for (const bool first : {false, true}) {
      for (const bool second : {false, true}) EXPECT_EQ(blocks(dims, first, second), bytes) << dims[0];
    }
  };
  whatever_is_transposed({512, 128, 128}, 164864);
  whatever_is_transposed({128, 512, 128}, 402432);
  whatever_is_transposed({256, 1024, 96}, 803968);
  whatever_is_transposed({96, 1024, 256}, 433280);
  whatever_is_transposed({1024, 1024, 1024}, 1721472);
  whatever_is_transposed({300, 700, 500}, 756224);
  whatever_is_transposed({100, 48, 30}, 32512);
  whatever_is_transposed({197, 197, 64}, 218176);
  whatever_is_transposed({1, 512, 512}, 134208);
  whatever_is_transposed({64, 1, 64}, 9216);
  // More than 1,024: twice as much at a time, but for a first operand that is transposed.
  EXPECT_EQ(blocks({64, 2048, 64}, false, true), 545920);
  EXPECT_EQ(blocks({64, 2048, 64}, true, true), 283776);
  EXPECT_EQ(blocks({48, 2048, 256}, false, false), 512128);
  EXPECT_EQ(blocks({48, 2048, 256}, true, false), 282752);
}

// Measured on the same machine, one thread.
TEST(ProductWorkspace, ProductsInTilesCopyAsMuchAsTheyAddUpAtATime) {
  const auto blocks = [](const Dims& dims, bool first) {
    return ProductBlocks(kBfloat16, {1, dims[0], dims[1], dims[2], first, false}, Amx(1));
  };
  const auto both = [&](const Dims& dims) { return Dims{blocks(dims, false), blocks(dims, true)}; };
  EXPECT_EQ(both({512, 128, 128}), Dims({21504, 87168}));
  EXPECT_EQ(both({128, 512, 128}), Dims({70656, 210048}));
  EXPECT_EQ(both({512, 256, 64}), Dims({37888, 169088}));
  EXPECT_EQ(both({256, 1024, 96}), Dims({136192, 676992}));
  EXPECT_EQ(both({96, 1024, 256}), Dims({136192, 406656}));
  EXPECT_EQ(both({300, 64, 64}), Dims({13312, 46208}));
  EXPECT_EQ(both({512, 768, 512}), Dims({103424, 496768}));
  EXPECT_EQ(both({1, 512, 512}), Dims({70656, 70656}));
  // More at a time than is copied at once, to the byte where it was seen; a last part that is no multiple of 32.
  EXPECT_EQ(both({768, 2048, 768}), Dims({398464 - 128, 738560}));
  EXPECT_EQ(blocks({300, 700, 500}, false), 96256);
  // Measured: 332,928 and 881,536, and 1,053,696 without the transposition.
  EXPECT_EQ(both({768, 8192, 768}), Dims({738432, 738560}));
  EXPECT_EQ(ProductBlocks(kBfloat16, {1, 1024, 1024, 128, false, false}, Amx(2)), 272000);  // both threads
}

TEST(ProductWorkspace, BatchesOfProductsTakeBlocks) {
  CpuKernels kernels = Measured();
  kernels.threads = 1;
  const auto batch = Op("BatchMatMulV2").In(kFloat, {4, 256, 512}).In(kFloat, {4, 256, 64}).Out(kFloat, {4, 512, 64});
  Op transposed = batch;
  EXPECT_EQ(transposed.True("adj_x").Workspace(kernels), 263040);
  EXPECT_EQ(transposed.Workspace(WithoutOneDnn()), 0);
}

}  // namespace
}  // namespace lms
