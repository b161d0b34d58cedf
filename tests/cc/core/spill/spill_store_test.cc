#include "cc/core/spill/spill_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/system/directory_facts.h"
#include "tests/cc/core/faulty_files.h"

namespace lms {
namespace {

constexpr int64_t kChunk = 8 * kSpillAlignment;

std::vector<char> Bytes(int64_t count, int seed = 1) {
  std::vector<char> bytes(static_cast<size_t>(count));
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

struct Written {
  SpillStatus status;
  SpillHandle entry;
};

// A store on two queues, with what a test wants to wait for.
class Bench {
 public:
  explicit Bench(SpillFiles* files, const std::string& directory = "/d", int threads = 2)
      : writers_(threads, kChunk), readers_(threads, kChunk) {
    store_.emplace(directory, files, &writers_, &readers_, &counters_);
  }

  std::future<Written> BeginWrite(const std::vector<char>& data, SpillRequest request = {}) {
    auto promise = std::make_shared<std::promise<Written>>();
    std::future<Written> future = promise->get_future();
    store_->Write(
        data.data(), static_cast<int64_t>(data.size()), std::move(request),
        [promise](const SpillStatus& status, SpillHandle entry) { promise->set_value({status, std::move(entry)}); });
    return future;
  }
  Written Write(const std::vector<char>& data, SpillRequest request = {}) {
    return BeginWrite(data, std::move(request)).get();
  }

  std::future<SpillStatus> BeginRead(const SpillHandle& entry, std::vector<char>* data, SpillRequest request = {}) {
    data->assign(static_cast<size_t>(entry->bytes()), 'x');
    auto promise = std::make_shared<std::promise<SpillStatus>>();
    std::future<SpillStatus> future = promise->get_future();
    store_->Read(entry, data->data(), std::move(request),
                 [promise](const SpillStatus& status) { promise->set_value(status); });
    return future;
  }
  SpillStatus Read(const SpillHandle& entry, std::vector<char>* data) { return BeginRead(entry, data).get(); }

  void ExpectNothingStored() { EXPECT_EQ(counters_.stored_bytes, 0); }

  SpillStore& store() { return *store_; }
  SpillCounters& counters() { return counters_; }

 private:
  SpillCounters counters_;
  SpillQueue writers_;
  SpillQueue readers_;
  std::optional<SpillStore> store_;
};

TEST(SpillStoreTest, BytesComeBackAsTheyWere) {
  FaultyFiles files;
  Bench bench(&files);
  for (const int64_t size : {int64_t{1}, int64_t{7}, kSpillAlignment, kSpillAlignment + 1, kChunk - 1, kChunk,
                             kChunk + 1, 5 * kChunk + 12345}) {
    const std::vector<char> data = Bytes(size, static_cast<int>(size));
    const Written written = bench.Write(data);
    ASSERT_TRUE(written.status.ok()) << written.status.message;
    std::vector<char> back;
    for (int time = 0; time < 2; ++time) {
      ASSERT_TRUE(bench.Read(written.entry, &back).ok());
      EXPECT_EQ(back, data) << size;
    }
  }
  bench.ExpectNothingStored();
}

TEST(SpillStoreTest, NothingAtAllCanBeWrittenToo) {
  FaultyFiles files;
  files.open_error = EACCES;  // no file is needed for it
  Bench bench(&files);
  const Written written = bench.Write({});
  ASSERT_TRUE(written.status.ok());
  std::vector<char> back;
  EXPECT_TRUE(bench.Read(written.entry, &back).ok());
}

TEST(SpillStoreTest, ShortAndInterruptedCallsAreContinued) {
  FaultyFiles files;
  files.at_most = 1000;
  files.interrupted = 5;
  Bench bench(&files);
  const std::vector<char> data = Bytes(3 * kChunk + 5);
  const Written written = bench.Write(data);
  ASSERT_TRUE(written.status.ok()) << written.status.message;
  files.With([&] { files.interrupted = 5; });
  std::vector<char> back;
  ASSERT_TRUE(bench.Read(written.entry, &back).ok());
  EXPECT_EQ(back, data);
}

TEST(SpillStoreTest, AFullDiskIsSaidAndGivesNothingAway) {
  FaultyFiles files;
  files.disk_bytes = 4 * kChunk;
  Bench bench(&files);
  const Written first = bench.Write(Bytes(3 * kChunk));
  ASSERT_TRUE(first.status.ok()) << first.status.message;
  const Written second = bench.Write(Bytes(2 * kChunk));
  EXPECT_EQ(second.status.code, SpillCode::kFull);
  EXPECT_EQ(second.entry, nullptr);
  for (const char* part : {"reserve", "65536 bytes", "/d", "No space left on device", "swap_to", "swap_disk_limit"}) {
    EXPECT_NE(second.status.message.find(part), std::string::npos) << part << ": " << second.status.message;
  }
  EXPECT_EQ(bench.counters().stored_bytes, 3 * kChunk);
  EXPECT_TRUE(bench.Write(Bytes(kChunk)).status.ok());
}

TEST(SpillStoreTest, TheLimitBoundsTheFile) {
  FaultyFiles files;
  Bench bench(&files);
  SpillRequest request;
  request.limit = 4 * kChunk + 100;
  Written a = bench.Write(Bytes(2 * kChunk), request);
  const Written b = bench.Write(Bytes(2 * kChunk), request);
  ASSERT_TRUE(a.status.ok() && b.status.ok());
  const Written c = bench.Write(Bytes(1), request);
  EXPECT_EQ(c.status.code, SpillCode::kFull);
  EXPECT_NE(c.status.message.find("swap_disk_limit is " + std::to_string(request.limit)), std::string::npos)
      << c.status.message;
  EXPECT_LE(files.most_bytes, request.limit);
  ASSERT_TRUE(bench.Write(Bytes(4 * kChunk)).status.ok());  // without a limit the file grows, and has room then,
  EXPECT_EQ(bench.Write(Bytes(1), request).status.code, SpillCode::kFull);  // but not for this one
}

TEST(SpillStoreTest, FreeRoomInPiecesIsUsedWhenTheFileCannotGrow) {
  FaultyFiles files;
  files.disk_bytes = 8 * kChunk;
  Bench bench(&files);
  std::vector<Written> entries;
  for (int i = 0; i < 8; ++i) entries.push_back(bench.Write(Bytes(kChunk, i)));
  for (const int i : {1, 3, 6}) entries[i].entry.reset();
  EXPECT_EQ(bench.counters().stored_bytes, 5 * kChunk);
  const std::vector<char> data = Bytes(2 * kChunk + 777, 99);
  const Written pieces = bench.Write(data);
  ASSERT_TRUE(pieces.status.ok()) << pieces.status.message;
  std::vector<char> back;
  ASSERT_TRUE(bench.Read(pieces.entry, &back).ok());
  EXPECT_EQ(back, data);
  for (const int i : {0, 2, 4, 5, 7}) {
    ASSERT_TRUE(bench.Read(entries[i].entry, &back).ok());
    EXPECT_EQ(back, Bytes(kChunk, i)) << i;
  }
}

TEST(SpillStoreTest, EachErrorOfTheSystemIsNamed) {
  struct Case {
    int FaultyFiles::* fault;
    int error;
    SpillCode code;
    const char* operation;
    const char* cause;
  };
  for (const Case& c : {Case{&FaultyFiles::open_error, EROFS, SpillCode::kFailed, "open", "Read-only file system"},
                        Case{&FaultyFiles::open_error, ENOENT, SpillCode::kFailed, "open", "No such file"},
                        Case{&FaultyFiles::reserve_error, EFBIG, SpillCode::kFull, "reserve", "ulimit -f"},
                        Case{&FaultyFiles::reserve_error, EDQUOT, SpillCode::kFull, "reserve", "quota"},
                        Case{&FaultyFiles::reserve_error, EIO, SpillCode::kFailed, "reserve", "Input/output error"},
                        Case{&FaultyFiles::write_error, EIO, SpillCode::kFailed, "write", "Input/output error"},
                        Case{&FaultyFiles::write_error, ENOSPC, SpillCode::kFull, "write", "No space left"}}) {
    FaultyFiles files;
    Bench bench(&files, "/some/where");
    files.With([&] { files.*c.fault = c.error; });
    const Written written = bench.Write(Bytes(2 * kChunk));
    EXPECT_EQ(written.status.code, c.code) << c.operation;
    EXPECT_EQ(written.entry, nullptr);
    for (const char* part : {c.operation, c.cause, "/some/where", " bytes"}) {
      EXPECT_NE(written.status.message.find(part), std::string::npos) << part << ": " << written.status.message;
    }
    bench.ExpectNothingStored();
    files.With([&] { files.*c.fault = 0; });  // it is over, and so is the error
    EXPECT_TRUE(bench.Write(Bytes(kChunk)).status.ok());
  }
}

TEST(SpillStoreTest, AReadErrorFailsThatReadAlone) {
  FaultyFiles files;
  Bench bench(&files);
  const std::vector<char> data = Bytes(2 * kChunk);
  const Written written = bench.Write(data);
  files.With([&] { files.read_error = EIO; });
  std::vector<char> back;
  const SpillStatus status = bench.Read(written.entry, &back);
  EXPECT_EQ(status.code, SpillCode::kFailed);
  EXPECT_NE(status.message.find("could not read"), std::string::npos) << status.message;
  files.With([&] { files.read_error = 0; });
  ASSERT_TRUE(bench.Read(written.entry, &back).ok());
  EXPECT_EQ(back, data);
}

TEST(SpillStoreTest, DamagedBytesAreAnError) {
  FaultyFiles files;
  Bench bench(&files);
  const Written written = bench.Write(Bytes(2 * kChunk));
  std::vector<char> back;
  for (const size_t at : {size_t{0}, size_t{kChunk - 1}, size_t{kChunk + 17}}) {
    files.With([&] { files.data[at] ^= 4; });
    const SpillStatus status = bench.Read(written.entry, &back);
    EXPECT_EQ(status.code, SpillCode::kDamaged) << at;
    EXPECT_NE(status.message.find("checksum"), std::string::npos) << status.message;
    files.With([&] { files.data[at] ^= 4; });
  }
  EXPECT_TRUE(bench.Read(written.entry, &back).ok());
}

TEST(SpillStoreTest, ATruncatedFileIsAnErrorAlsoWhenItHasGrownAgain) {
  FaultyFiles files;
  Bench bench(&files);
  const Written written = bench.Write(Bytes(2 * kChunk));
  std::vector<char> back;
  files.With([&] { files.data.resize(kChunk + 100); });
  SpillStatus status = bench.Read(written.entry, &back);
  EXPECT_EQ(status.code, SpillCode::kDamaged);
  EXPECT_NE(status.message.find("ends before"), std::string::npos) << status.message;
  files.With([&] { files.data.resize(64 * kChunk); });  // zeros
  status = bench.Read(written.entry, &back);
  EXPECT_EQ(status.code, SpillCode::kDamaged);
}

TEST(SpillStoreTest, ACancelledWriteEndsAtItsNextChunkAndFreesItsRoom) {
  FaultyFiles files;
  Bench bench(&files, "/d", 1);
  std::atomic<bool> cancelled{false};
  SpillRequest request;
  request.cancelled = [&cancelled] { return cancelled.load(); };
  const std::vector<char> data = Bytes(100 * kChunk);
  files.Hold();
  std::future<Written> writing = bench.BeginWrite(data, request);
  files.AwaitHeld();
  EXPECT_EQ(bench.counters().stored_bytes, 100 * kChunk);
  cancelled = true;
  files.Go();
  const Written written = writing.get();
  EXPECT_EQ(written.status.code, SpillCode::kCancelled);
  EXPECT_EQ(written.entry, nullptr);
  EXPECT_EQ(files.calls, 1);
  bench.ExpectNothingStored();
}

TEST(SpillStoreTest, ACancelledReadEnds) {
  FaultyFiles files;
  Bench bench(&files);
  const Written written = bench.Write(Bytes(4 * kChunk));
  SpillRequest request;
  request.cancelled = [] { return true; };
  std::vector<char> back;
  EXPECT_EQ(bench.BeginRead(written.entry, &back, request).get().code, SpillCode::kCancelled);
}

TEST(SpillStoreTest, AnEntryMayGoWhileItIsRead) {
  FaultyFiles files;
  Bench bench(&files);
  const std::vector<char> data = Bytes(4 * kChunk);
  Written written = bench.Write(data);
  files.Hold();
  std::vector<char> back;
  std::future<SpillStatus> reading = bench.BeginRead(written.entry, &back);
  written.entry.reset();
  files.AwaitHeld();
  EXPECT_EQ(bench.counters().stored_bytes, 4 * kChunk);  // the read holds it
  files.Go();
  EXPECT_TRUE(reading.get().ok());
  EXPECT_EQ(back, data);
  bench.ExpectNothingStored();
}

TEST(SpillStoreTest, AStoreThatGoesWithWritesUnderWayEndsThem) {
  FaultyFiles files;
  std::future<Written> first;
  std::future<Written> second;
  const std::vector<char> data = Bytes(50 * kChunk);
  std::thread go;
  {
    Bench bench(&files, "/d", 1);
    files.Hold();
    first = bench.BeginWrite(data);
    second = bench.BeginWrite(data);
    files.AwaitHeld();
    go = std::thread([&files] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      files.Go();
    });
    // The counters go with the bench: entries have to be gone before.
  }
  go.join();
  EXPECT_EQ(first.get().status.code, SpillCode::kCancelled);
  EXPECT_EQ(second.get().status.code, SpillCode::kCancelled);
}

TEST(SpillStoreTest, TrimGivesBackWhatIsFreeAtTheEnd) {
  FaultyFiles files;
  Bench bench(&files);
  Written a = bench.Write(Bytes(3 * kChunk));
  Written b = bench.Write(Bytes(5 * kChunk));
  EXPECT_GE(files.data.size(), 8u * kChunk);
  b.entry.reset();
  EXPECT_EQ(bench.counters().stored_bytes, 3 * kChunk);
  bench.store().Trim();
  EXPECT_EQ(files.data.size(), 3u * kChunk);
  EXPECT_EQ(bench.counters().file_bytes, 3 * kChunk);
  std::vector<char> back;
  ASSERT_TRUE(bench.Read(a.entry, &back).ok());
  EXPECT_EQ(back, Bytes(3 * kChunk));
  a.entry.reset();
  bench.ExpectNothingStored();
  bench.store().Trim();
  EXPECT_EQ(files.data.size(), 0u);
  EXPECT_TRUE(bench.Write(Bytes(kChunk)).status.ok());
}

TEST(SpillStoreTest, ThousandsOfSmallTransfersOfManyThreadsDoNotGrowTheFile) {
  FaultyFiles files;
  Bench bench(&files);
  bench.Write(Bytes(100));
  const int64_t size = files.most_bytes;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&bench, t] {
      for (int i = 0; i < 500; ++i) {
        const std::vector<char> data = Bytes(1 + (i * 7919 + t) % 20000, i + 1000 * t);
        const Written written = bench.Write(data);
        ASSERT_TRUE(written.status.ok());
        std::vector<char> back;
        ASSERT_TRUE(bench.Read(written.entry, &back).ok());
        ASSERT_EQ(back, data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bench.ExpectNothingStored();
  EXPECT_EQ(files.most_bytes, size);
  bench.store().Trim();
  EXPECT_EQ(files.data.size(), 0u);
}

TEST(SpillStoreTest, MoreUrgentTransfersGoFirst) {
  FaultyFiles files;
  Bench bench(&files, "/d", 1);
  bench.Write(Bytes(1));  // the file is open
  files.Hold();
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::future<void>> all;
  const std::vector<char> data = Bytes(3 * kChunk);
  const auto add = [&](int64_t deadline) {
    auto promise = std::make_shared<std::promise<void>>();
    all.push_back(promise->get_future());
    SpillRequest request;
    request.deadline = deadline;
    bench.store().Write(data.data(), static_cast<int64_t>(data.size()), request,
                        [&, deadline, promise](const SpillStatus&, const SpillHandle&) {
                          {
                            const std::lock_guard<std::mutex> lock(mutex);
                            order.push_back(static_cast<int>(deadline));
                          }
                          promise->set_value();
                        });
  };
  add(50);
  files.AwaitHeld();  // one chunk of it is on its way
  for (const int deadline : {70, 20, 10, 60}) add(deadline);
  files.Go();
  for (std::future<void>& future : all) future.wait();
  EXPECT_EQ(order, (std::vector<int>{10, 20, 50, 60, 70}));
}

TEST(SharedSpillStoreTest, IsOnePerDirectoryAndCounts) {
  const std::string directory = ::testing::TempDir();
  SpillStore& store = SharedSpillStore(directory);
  EXPECT_EQ(&store, &SharedSpillStore(directory));
  EXPECT_NE(&store, &SharedSpillStore(directory + "/."));
  EXPECT_EQ(&SharedSpillStore(""), &SharedSpillStore(DirectoryForSpilling()));
  ResetSharedSpillStatistics();
  const std::vector<char> data = Bytes(3 * kSpillChunkBytes + 1);
  std::promise<Written> promise;
  store.Write(
      data.data(), static_cast<int64_t>(data.size()), {},
      [&promise](const SpillStatus& status, SpillHandle entry) { promise.set_value({status, std::move(entry)}); });
  Written written = promise.get_future().get();
  ASSERT_TRUE(written.status.ok()) << written.status.message;
  std::vector<char> back(data.size());
  std::promise<SpillStatus> read;
  store.Read(written.entry, back.data(), {}, [&read](const SpillStatus& status) { read.set_value(status); });
  ASSERT_TRUE(read.get_future().get().ok());
  EXPECT_EQ(back, data);
  SpillStatistics statistics = SharedSpillStatistics();
  const auto bytes = static_cast<int64_t>(data.size());
  EXPECT_EQ(statistics.written_bytes, bytes);
  EXPECT_EQ(statistics.read_bytes, bytes);
  EXPECT_GE(statistics.stored_bytes, bytes);
  EXPECT_EQ(statistics.peak_stored_bytes, statistics.stored_bytes);
  EXPECT_GT(statistics.write_seconds, 0);
  EXPECT_GT(statistics.processor_seconds, 0);
  written.entry.reset();
  EXPECT_EQ(SharedSpillStatistics().stored_bytes, 0);
  TrimSharedSpillStores();
  EXPECT_EQ(SharedSpillStatistics().file_bytes, 0);
}

TEST(SharedSpillStoreTest, AChildAfterAForkHasItsOwn) {
  const std::string directory = ::testing::TempDir();
  const std::vector<char> data = Bytes(100000);
  const auto write = [&data, &directory] {
    std::promise<Written> promise;
    SharedSpillStore(directory).Write(
        data.data(), static_cast<int64_t>(data.size()), {},
        [&promise](const SpillStatus& status, SpillHandle entry) { promise.set_value({status, std::move(entry)}); });
    return promise.get_future().get();
  };
  const auto read = [&directory](const SpillHandle& entry, std::vector<char>* back) {
    std::promise<SpillStatus> promise;
    SharedSpillStore(directory).Read(entry, back->data(), {},
                                     [&promise](const SpillStatus& status) { promise.set_value(status); });
    return promise.get_future().get();
  };
  Written before = write();
  ASSERT_TRUE(before.status.ok());
  std::vector<char> back(data.size());
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a child that hangs dies
    const bool refused = read(before.entry, &back).code == SpillCode::kFailed;
    before.entry.reset();
    const Written own = write();
    const bool same = own.status.ok() && read(own.entry, &back).ok() && back == data;
    _exit(refused && same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(read(before.entry, &back).ok());  // the child's freeing did nothing here
  EXPECT_EQ(back, data);
}

}  // namespace
}  // namespace lms
