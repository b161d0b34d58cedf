#include "cc/tf/runtime/memory_counter.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"

namespace lms {
namespace {

using ::tensorflow::AllocationAttributes;
using ::tensorflow::Allocator;
using ::tensorflow::DT_FLOAT;
using ::tensorflow::Tensor;

constexpr size_t kAlignment = Allocator::kAllocatorAlignment;

class MemoryCounterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(StartCounting(), "");
    ResetPeak();
    start_ = BytesInUse();
  }
  // Since the test began.
  int64_t InUse() const { return BytesInUse() - start_; }
  int64_t Peak() const { return PeakBytes() - start_; }

  int64_t start_ = 0;
  Allocator* allocator_ = tensorflow::cpu_allocator();
};

TEST_F(MemoryCounterTest, BytesAreCountedAsAskedWithoutRounding) {
  void* const small = allocator_->AllocateRaw(kAlignment, 100);
  EXPECT_EQ(InUse(), 100);
  void* const large = allocator_->AllocateRaw(kAlignment, 1000001);  // the oneDNN allocator takes it from a pool
  EXPECT_EQ(InUse(), 1000101);
  allocator_->DeallocateRaw(small);
  EXPECT_EQ(InUse(), 1000001);
  allocator_->DeallocateRaw(large);
  EXPECT_EQ(InUse(), 0);
  EXPECT_EQ(Peak(), 1000101);
}

TEST_F(MemoryCounterTest, ThePeakStartsAgainFromWhatIsInUse) {
  void* const kept = allocator_->AllocateRaw(kAlignment, 1000);
  allocator_->DeallocateRaw(allocator_->AllocateRaw(kAlignment, 5000));
  EXPECT_EQ(Peak(), 6000);
  ResetPeak();
  EXPECT_EQ(Peak(), 1000);
  allocator_->DeallocateRaw(allocator_->AllocateRaw(kAlignment, 2000));
  EXPECT_EQ(Peak(), 3000);
  allocator_->DeallocateRaw(kept);
}

TEST_F(MemoryCounterTest, AllocationWithAttributesIsCountedOnce) {
  const AllocationAttributes attributes;
  void* const pointer = allocator_->AllocateRaw(kAlignment, 4096, attributes);
  EXPECT_EQ(InUse(), 4096);
  allocator_->DeallocateRaw(pointer);
  EXPECT_EQ(InUse(), 0);
}

TEST_F(MemoryCounterTest, StartingAgainChangesNothing) {
  void* const pointer = allocator_->AllocateRaw(kAlignment, 512);
  EXPECT_EQ(StartCounting(), "");
  EXPECT_EQ(InUse(), 512);
  EXPECT_EQ(Peak(), 512);
  allocator_->DeallocateRaw(pointer);
  EXPECT_EQ(InUse(), 0);
}

TEST_F(MemoryCounterTest, TheAllocatorOfDevicesIsTheOneCounted) {
  Allocator* const device_allocator = tensorflow::ProcessState::singleton()->GetCPUAllocator(0);
  void* const pointer = device_allocator->AllocateRaw(kAlignment, 640);
  EXPECT_EQ(InUse(), 640);
  device_allocator->DeallocateRaw(pointer);
}

TEST_F(MemoryCounterTest, TensorsAreCountedByTheirBuffers) {
  auto tensor = std::make_unique<Tensor>(DT_FLOAT, tensorflow::TensorShape({1000, 1000}));
  EXPECT_EQ(InUse(), 4000000);
  const Tensor shared = *tensor;  // the same buffer
  EXPECT_EQ(InUse(), 4000000);
  tensor.reset();
  EXPECT_EQ(InUse(), 4000000);
}

TEST_F(MemoryCounterTest, NothingIsLostBetweenThreads) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 3000;
  // Each thread frees what another one allocated.
  std::vector<std::atomic<void*>> handed_over(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t, &handed_over] {
      for (int i = 0; i < kRounds; ++i) {
        void* const mine = allocator_->AllocateRaw(kAlignment, static_cast<size_t>(64 + i % 1000));
        void* const other = handed_over[(t + i) % kThreads].exchange(mine);
        if (other != nullptr) allocator_->DeallocateRaw(other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& pointer : handed_over) {
    if (pointer != nullptr) allocator_->DeallocateRaw(pointer);
  }
  EXPECT_EQ(InUse(), 0);
  EXPECT_GE(Peak(), 64 + 999);
}

tensorflow::NodeDef* AddNode(tensorflow::GraphDef* graph, const std::string& name, const std::string& op) {
  tensorflow::NodeDef* const node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  return node;
}

// x -> y0 = x * x -> y1 = y0 * x -> ... -> y9, each 1000 x 1000 floats: 4,000,000 bytes. While one product
// is computed, its input and its output exist: 8,000,000 bytes beyond x, which exists before.
TEST_F(MemoryCounterTest, AChainOfMatrixProductsTakesTwoMatrices) {
  tensorflow::GraphDef graph;
  (*AddNode(&graph, "x", "Placeholder")->mutable_attr())["dtype"].set_type(DT_FLOAT);
  for (int i = 0; i < 10; ++i) {
    auto* const node = AddNode(&graph, "y" + std::to_string(i), "MatMul");
    node->add_input(i == 0 ? "x" : "y" + std::to_string(i - 1));
    node->add_input("x");
    (*node->mutable_attr())["T"].set_type(DT_FLOAT);
  }
  std::unique_ptr<tensorflow::Session> session(tensorflow::NewSession(tensorflow::SessionOptions()));
  ASSERT_TRUE(session->Create(graph).ok());
  Tensor x(DT_FLOAT, tensorflow::TensorShape({1000, 1000}));
  x.flat<float>().setConstant(1e-4f);

  std::vector<Tensor> warm_up;
  ASSERT_TRUE(session->Run({{"x", x}}, {"y9"}, {}, &warm_up).ok());
  warm_up.clear();
  ResetPeak();
  const int64_t before = BytesInUse();
  std::vector<Tensor> outputs;
  ASSERT_TRUE(session->Run({{"x", x}}, {"y9"}, {}, &outputs).ok());
  EXPECT_EQ(PeakBytes() - before, 8000000);
  EXPECT_EQ(BytesInUse() - before, 4000000);
}

TEST_F(MemoryCounterTest, AScopeHasAPeakOfItsOwn) {
  void* const before = allocator_->AllocateRaw(kAlignment, 1000);
  void* const high = allocator_->AllocateRaw(kAlignment, 5000);
  allocator_->DeallocateRaw(high);
  ASSERT_TRUE(BeginPeakScope());
  EXPECT_FALSE(BeginPeakScope());
  void* const inside = allocator_->AllocateRaw(kAlignment, 300);
  ResetPeak();
  allocator_->DeallocateRaw(inside);
  allocator_->DeallocateRaw(before);  // what falls below the start is no rise
  EXPECT_EQ(EndPeakScope(), 300);
  EXPECT_EQ(EndPeakScope(), 0);
  EXPECT_EQ(Peak(), 1300);
}

}  // namespace
}  // namespace lms
