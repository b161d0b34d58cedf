// Streams and events of the stand-in, the types behind TensorFlow's SP_Stream, SP_Event and SP_Timer.
//
// A stream is a thread that does one thing after the other. An event is a place in a stream: it is reached when all
// that was added before has been done. Thread-safe.

#ifndef LMS_TESTS_STANDIN_STREAM_H_
#define LMS_TESTS_STANDIN_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace standin {

using Clock = std::chrono::steady_clock;

// Sleeps for a random time of at most STANDIN_JITTER_US; seldom, and not where it is 0.
void Jitter();

// A place in a stream.
class Mark {
 public:
  void Reach();
  void Wait();
  bool Reached();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;  // guarded by mutex_
};

}  // namespace standin

struct SP_Stream_st {
 public:
  SP_Stream_st();
  ~SP_Stream_st();                                              // when all that was added has been done
  void Add(std::function<void()> work, std::string name = "");  // the name for a trace (trace.h)
  std::shared_ptr<standin::Mark> Record();
  void WaitFor(std::shared_ptr<standin::Mark> mark);  // what is added from now on comes after it
  void BlockUntilDone();                              // the caller waits; not to be called from a stream

 private:
  struct Work {
    std::function<void()> run;
    std::string name;
  };

  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;  // guarded by mutex_
  bool stop_ = false;       // guarded by mutex_
  std::thread thread_;      // last: it starts with all of the above
};

struct SP_Event_st {
 public:
  void Set(std::shared_ptr<standin::Mark> mark);
  std::shared_ptr<standin::Mark> Get();  // null where it was never recorded

 private:
  std::mutex mutex_;
  std::shared_ptr<standin::Mark> mark_;  // guarded by mutex_
};

struct SP_Timer_st {
  standin::Clock::time_point begin, end;
};

#endif  // LMS_TESTS_STANDIN_STREAM_H_
