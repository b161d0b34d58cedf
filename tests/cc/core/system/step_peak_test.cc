#include "cc/core/system/step_peak.h"

#include <gtest/gtest.h>

#include <vector>

namespace lms {
namespace {

constexpr int64_t kStep = -5, kPipeline = -7;
constexpr int64_t kBatch = 4096;

// Pointers by number.
AllocationEvent New(intptr_t pointer, int64_t bytes, int64_t run) {
  return {reinterpret_cast<const void*>(pointer), bytes, run};
}
AllocationEvent Gone(intptr_t pointer, int64_t bytes) { return {reinterpret_cast<const void*>(pointer), -bytes, 0}; }

AllocationEvent Taken(intptr_t pointer, int64_t bytes) {
  return {reinterpret_cast<const void*>(pointer), 0, kStep, bytes};
}

TEST(StepPeakTest, WithoutABatchWhatOthersMakeAndKeepDoesNotCount) {
  // A pipeline makes two batches, with scratch memory; the step replaces a variable.
  EXPECT_EQ(PeakBesideOthers({New(2, 10000, kStep), New(4, kBatch, 0), New(5, kBatch, kPipeline), New(6, 300, 0),
                              New(3, 500, kStep), Gone(6, 300), Gone(1, 500), Gone(2, 10000)}),
            10000 + 300 + 500);
}

TEST(StepPeakTest, WithoutABatchAllCountsWhereNobodySaysWhoseItIs) {
  EXPECT_EQ(PeakBesideOthers({New(2, 1000, 0), New(4, kBatch, 0), Gone(2, 1000)}), 1000 + kBatch);
}

TEST(StepPeakTest, WhatTheGraphSaysItWasHandedIsTheBatch) {
  // 8 is older and goes, too; 1 was there before; 4 is made meanwhile.
  const StepPeak peak =
      PeakOfStep({Gone(8, kBatch), New(4, kBatch, kPipeline), New(7, 90000, kPipeline), Taken(1, kBatch),
                  Taken(4, kBatch), New(2, 1000, kStep), Gone(1, kBatch), Gone(4, kBatch), Gone(2, 1000)},
                 {kBatch, kBatch});
  EXPECT_EQ(peak.bytes, 2 * kBatch + 1000);
  EXPECT_TRUE(peak.complete);
}

TEST(StepPeakTest, ASmallerBatchThatTheGraphSpeaksOfIsNoticed) {
  const StepPeak peak =
      PeakOfStep({Taken(1, kBatch / 2), New(2, 1000, kStep), Gone(1, kBatch / 2), Gone(2, 1000)}, {kBatch});
  EXPECT_FALSE(peak.complete);
}

TEST(StepPeakTest, ABatchThatTheDatasetKeepsAddsNothing) {
  const StepPeak peak = PeakOfStep({Taken(1, kBatch), New(2, 1000, kStep), Gone(2, 1000)}, {kBatch});
  EXPECT_EQ(peak.bytes, 1000);
  EXPECT_TRUE(peak.complete);
}

TEST(StepPeakTest, ABatchThatWasThereBeforeCountsFromTheStart) {
  // 4096 handed over, 1000 + 2000 of its own.
  const StepPeak peak =
      PeakOfStep({New(2, 1000, kStep), New(3, 2000, kStep), Gone(2, 1000), Gone(1, kBatch), Gone(3, 2000)}, {kBatch});
  EXPECT_EQ(peak.bytes, kBatch + 3000);
  EXPECT_TRUE(peak.complete);
}

TEST(StepPeakTest, TheNextBatchesDoNotCount) {
  // Two are made meanwhile, one of them by a function of the pipeline with 5000 of its own.
  const StepPeak peak = PeakOfStep({New(2, 10000, kStep), New(4, kBatch, 0), New(5, 5000, kPipeline),
                                    New(6, kBatch, kPipeline), Gone(5, 5000), Gone(1, kBatch), Gone(2, 10000)},
                                   {kBatch});
  EXPECT_EQ(peak.bytes, kBatch + 10000);
}

TEST(StepPeakTest, ABatchThatTheStepWaitedForCountsFromWhereItIsMade) {
  for (const int64_t run : {int64_t{0}, kPipeline}) {
    const StepPeak peak = PeakOfStep(
        {New(2, 9000, kStep), Gone(2, 9000), New(4, kBatch, run), New(3, 6000, kStep), Gone(4, kBatch), Gone(3, 6000)},
        {kBatch});
    EXPECT_EQ(peak.bytes, kBatch + 6000);
    EXPECT_TRUE(peak.complete);
  }
}

TEST(StepPeakTest, ASmallerBatchIsNoticed) {
  const StepPeak peak = PeakOfStep({New(2, 1000, kStep), Gone(1, kBatch / 2), Gone(2, 1000)}, {kBatch});
  EXPECT_FALSE(peak.complete);
}

TEST(StepPeakTest, OfSeveralBatchesInOneCallOneCountsAtATime) {
  const StepPeak peak = PeakOfStep({New(2, 5000, kStep), Gone(2, 5000), New(4, kBatch, 0), Gone(1, kBatch),
                                    New(3, 5000, kStep), Gone(3, 5000), Gone(4, kBatch)},
                                   {kBatch});
  EXPECT_EQ(peak.bytes, kBatch + 5000);
}

TEST(StepPeakTest, ScratchMemoryThatNobodysNameIsOnCounts) {
  const StepPeak peak = PeakOfStep({New(2, 1000, kStep), New(3, 500, 0), Gone(3, 500), Gone(2, 1000)}, {});
  EXPECT_EQ(peak.bytes, 1500);
}

TEST(StepPeakTest, AVariableThatIsCopiedWhenWrittenTakesTheOldOnesPlace) {
  // 300 in the place of 300, then 800 more; without that it would be 300 + 800.
  const StepPeak peak = PeakOfStep({New(2, 300, kStep), Gone(1, 300), New(3, 800, kStep), Gone(3, 800)}, {});
  EXPECT_EQ(peak.bytes, 800);
  // Both are there at the peak.
  EXPECT_EQ(PeakOfStep({New(3, 800, kStep), New(2, 300, kStep), Gone(1, 300), Gone(3, 800)}, {}).bytes, 1100);
}

TEST(StepPeakTest, WhatOthersReleaseMeanwhileChangesNothing) {
  EXPECT_EQ(PeakOfStep({Gone(9, 7000), New(2, 800, kStep), Gone(2, 800)}, {}).bytes, 800);
  EXPECT_EQ(PeakOfStep({}, {}).bytes, 0);
}

}  // namespace
}  // namespace lms
