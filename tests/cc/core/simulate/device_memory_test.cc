#include "cc/core/simulate/device_memory.h"

#include <vector>

#include "cc/core/simulate/overlap.h"
#include "cc/core/simulate/places.h"
#include "cc/core/simulate/run_record.h"
#include "gtest/gtest.h"

namespace lms {
namespace {

constexpr int64_t kKiB = 1024;

// An op that makes a buffer, one that makes another of it, and one that reads that.
MemGraph Chain(int64_t first, int64_t second) {
  MemGraph graph;
  const auto buffer = [&](int64_t bytes, OpId producer) {
    MemBuffer made;
    made.bytes = bytes;
    made.producer = producer;
    graph.buffers.push_back(made);
    return static_cast<BufferId>(graph.buffers.size() - 1);
  };
  graph.ops.resize(3);
  graph.ops[0].outputs = {buffer(first, 0)};
  graph.ops[1].inputs = {0};
  graph.ops[1].deps = {0};
  graph.ops[1].outputs = {buffer(second, 1)};
  graph.ops[2].inputs = {1};
  graph.ops[2].deps = {1};
  return graph;
}

std::vector<RunEvent> OneByOne() { return {{0, false}, {0, true}, {1, false}, {1, true}, {2, false}, {2, true}}; }

// Free pieces of such sizes, with something in use of 1 KiB after each.
ArenaSettings Pieces(const std::vector<int64_t>& free) {
  ArenaSettings settings;
  int64_t address = 0;
  for (const int64_t bytes : free) {
    settings.pieces.push_back({address, bytes, false, 0});
    settings.pieces.push_back({address + bytes, kKiB, true, kKiB});
    address += bytes + kKiB;
  }
  settings.limit_bytes = address;
  return settings;
}

TEST(DeviceMemoryTest, APieceThatIsNotTwiceAsLargeIsTakenAsAWhole) {
  const MemGraph graph = Chain(8 * kKiB, 4 * kKiB);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}).peak_bytes, 12 * kKiB);
  DeviceMemory memory(Pieces({12 * kKiB, 4 * kKiB}), graph);
  RunRecord record;
  const MemoryProfile profile = RecordRun(graph, OneByOne(), {}, &record, {}, &memory);
  EXPECT_EQ(profile.peak_bytes, 16 * kKiB);
  EXPECT_EQ(profile.lacking_bytes, 0);
  EXPECT_EQ(profile.lost_bytes, 4 * kKiB);
  EXPECT_EQ(record.holdings[0].bytes, 12 * kKiB);
  // All of it is given back.
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &memory).peak_bytes, 16 * kKiB);
}

TEST(DeviceMemoryTest, WhereNoPieceIsLargeEnoughTheLackIsTold) {
  const MemGraph graph = Chain(8 * kKiB, 4 * kKiB);
  DeviceMemory memory(Pieces({6 * kKiB, 6 * kKiB, 6 * kKiB}), graph);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &memory).lacking_bytes, 2 * kKiB);
}

TEST(DeviceMemoryTest, AVariableKeepsTheChunkOfItsNewValue) {
  const MemGraph graph = Chain(3 * kKiB, kKiB);
  DeviceMemory memory(Pieces({3 * kKiB, kKiB + 256}), graph, {false, true});
  // In the piece of 1 KiB and a bit, which it keeps.
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &memory).peak_bytes, 4 * kKiB + 256);
  EXPECT_EQ(memory.lacking_bytes(), 0);
  // What the variable had lies beside the 3 KiB: now they are one piece of 4, which the next 3 take as a whole.
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &memory).peak_bytes, 5 * kKiB);
  EXPECT_EQ(memory.lacking_bytes(), kKiB);
}

TEST(DeviceMemoryTest, WhatIsResidentAndNotYetThereTakesAPiece) {
  MemGraph graph = Chain(8 * kKiB, 4 * kKiB);
  MemBuffer resident;
  resident.resident = true;
  resident.bytes = kKiB;  // a variable, which is there
  graph.buffers.push_back(resident);
  resident.bytes = 3 * kKiB;  // a constant
  graph.buffers.push_back(resident);
  DeviceMemory memory(Pieces({8 * kKiB, 6 * kKiB}), graph);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &memory).lacking_bytes, kKiB);
  EXPECT_EQ(DeviceMemory(Pieces({2 * kKiB}), graph).lacking_bytes(), kKiB);
  graph.buffers.pop_back();
  DeviceMemory without(Pieces({8 * kKiB, 6 * kKiB}), graph);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &without).lacking_bytes, 0);
}

TEST(DeviceMemoryTest, WithoutPiecesWhatIsResidentComesFirst) {
  MemGraph graph = Chain(8 * kKiB, 4 * kKiB);
  MemBuffer weights;
  weights.bytes = 100;
  weights.resident = true;
  graph.buffers.push_back(weights);
  ArenaSettings settings;
  settings.limit_bytes = 12 * kKiB;
  DeviceMemory memory(settings, graph);
  // 256 bytes of the 12 KiB are taken; the rest is less than twice what is asked for first, and goes as a whole.
  const MemoryProfile profile = SimulateRun(graph, OneByOne(), {}, {}, &memory);
  EXPECT_EQ(profile.peak_bytes, 100 + (12 * kKiB - 256) + 4 * kKiB);
  EXPECT_EQ(profile.lacking_bytes, 4 * kKiB);
}

TEST(DeviceMemoryTest, WhatIsSmallIsNotOfTheArena) {
  MemGraph graph = Chain(8 * kKiB, 2 * kKiB);
  MemBuffer scalar;
  scalar.bytes = kKiB;
  scalar.resident = true;
  graph.buffers.push_back(scalar);
  ArenaSettings settings;
  settings.limit_bytes = 8 * kKiB;
  EXPECT_EQ(DeviceMemory(settings, graph).lacking_bytes(), 0);
  DeviceMemory full(settings, graph);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &full).lacking_bytes, 8 * kKiB - 7 * kKiB);
  // From 4 KiB on: the 8 fill the arena, and neither the 2 nor what is resident need any of it.
  settings.least_bytes = 4 * kKiB;
  DeviceMemory memory(settings, graph);
  for (int step = 0; step < 2; ++step) {
    const MemoryProfile profile = SimulateRun(graph, OneByOne(), {}, {}, &memory);
    EXPECT_EQ(profile.lacking_bytes, 0);
    EXPECT_EQ(profile.outside_bytes, 2 * kKiB);
    EXPECT_EQ(profile.peak_bytes, 11 * kKiB);  // all that the step takes
  }
}

// a and b are made, a goes, c needs what a had and more: by requests b lies in the way.
MemGraph InTheWay() {
  MemGraph graph;
  const auto op = [&](int64_t bytes, std::vector<BufferId> inputs, std::vector<OpId> deps) {
    MemBuffer made;
    made.bytes = bytes;
    made.producer = static_cast<OpId>(graph.ops.size());
    MemOp added;
    if (bytes > 0) {
      added.outputs = {static_cast<BufferId>(graph.buffers.size())};
      graph.buffers.push_back(made);
    }
    added.inputs = std::move(inputs);
    added.deps = std::move(deps);
    graph.ops.push_back(added);
  };
  op(2 * kKiB, {}, {});    // a
  op(kKiB, {0}, {0});      // b
  op(0, {0}, {1});         // a's last reader
  op(3 * kKiB, {1}, {2});  // c
  op(0, {1, 2}, {3});
  return graph;
}

TEST(DeviceMemoryTest, WhatHasAPlaceIsNotInTheWay) {
  const MemGraph graph = InTheWay();
  ArenaSettings settings;
  settings.limit_bytes = 4 * kKiB;
  settings.least_split_off = kArenaUnit;
  std::vector<RunEvent> run;
  for (OpId op = 0; op < 5; ++op) run.insert(run.end(), {{op, false}, {op, true}});
  DeviceMemory by_requests(settings, graph);
  std::vector<Lifetime> lifetimes;
  EXPECT_EQ(SimulateRun(graph, run, {}, {}, &by_requests, &lifetimes).lacking_bytes, kKiB);
  ASSERT_EQ(lifetimes.size(), 3u);
  EXPECT_EQ(lifetimes[0].to, 5);

  const Places places = FindPlaces({lifetimes}, by_requests.FreePieces(), 1).at(0);
  EXPECT_EQ(places.blocks, std::vector<int64_t>{4 * kKiB});
  DeviceMemory placed(settings, graph, {}, &places);
  for (int step = 0; step < 3; ++step) {
    const MemoryProfile profile = SimulateRun(graph, run, {}, {}, &placed);
    EXPECT_EQ(profile.lacking_bytes, 0);
    EXPECT_EQ(profile.peak_bytes, 4 * kKiB);  // the block
    EXPECT_EQ(placed.block_bytes(), 0);       // it has gone back
  }
}

TEST(DeviceMemoryTest, WhatHasNoPlaceComesFromABlockWhereThereIsNoOtherRoom) {
  const MemGraph graph = InTheWay();
  Places places;
  places.blocks = {4 * kKiB};
  places.entries = {{{0, 0}, 2 * kKiB, {0, 0}}};  // a's alone, so that the block goes back when a and b are gone
  ArenaSettings settings;
  settings.limit_bytes = 4 * kKiB;
  settings.least_split_off = kArenaUnit;
  DeviceMemory memory(settings, graph, {}, &places);
  std::vector<RunEvent> run;
  for (OpId op = 0; op < 5; ++op) run.insert(run.end(), {{op, false}, {op, true}});
  // b is behind a in the block, as it would be without one.
  EXPECT_EQ(SimulateRun(graph, run, {}, {}, &memory).lacking_bytes, kKiB);
}

// A list's elements come one by one: 8 KiB of them find room where no 8 KiB are free in one piece.
TEST(DeviceMemoryTest, WhatIsAskedForInPiecesNeedsRoomForEach) {
  MemGraph graph = Chain(8 * kKiB, kKiB);
  ArenaSettings settings = Pieces({6 * kKiB, 4 * kKiB});
  DeviceMemory whole(settings, graph);
  EXPECT_EQ(SimulateRun(graph, OneByOne(), {}, {}, &whole).lacking_bytes, 2 * kKiB);
  graph.buffers[0].piece_bytes = 2 * kKiB;
  std::vector<Lifetime> lifetimes;
  DeviceMemory in_pieces(settings, graph);
  const MemoryProfile profile = SimulateRun(graph, OneByOne(), {}, {}, &in_pieces, &lifetimes);
  EXPECT_EQ(profile.lacking_bytes, 0);
  EXPECT_EQ(profile.peak_bytes, 9 * kKiB);
  // All of it is given back, and it is given no place.
  EXPECT_NE(in_pieces.Take(Allocated(), 6 * kKiB).chunk, Arena::kNoRoom);
  EXPECT_NE(in_pieces.Take(Allocated(), 4 * kKiB).chunk, Arena::kNoRoom);
  ASSERT_EQ(lifetimes.size(), 2);
  EXPECT_EQ(lifetimes[0].what.part, Allocated::kOther);
}

TEST(DeviceMemoryTest, SmallPiecesOfSomethingLargeAreNotOfThePool) {
  MemGraph graph = Chain(8 * kKiB, 2 * kKiB);
  graph.buffers[0].piece_bytes = kKiB / 2;
  ArenaSettings settings = Pieces({2 * kKiB});
  settings.least_bytes = kKiB;
  DeviceMemory memory(settings, graph);
  std::vector<Lifetime> lifetimes;
  const MemoryProfile profile = SimulateRun(graph, OneByOne(), {}, {}, &memory, &lifetimes);
  EXPECT_EQ(profile.lacking_bytes, 0);
  EXPECT_EQ(profile.outside_bytes, 8 * kKiB);
  EXPECT_EQ(profile.peak_bytes, 10 * kKiB);
  EXPECT_EQ(lifetimes.size(), 1);
}

}  // namespace
}  // namespace lms
