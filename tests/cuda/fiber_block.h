// A block of GPU threads on the host: one fiber (ucontext) per thread, with barriers and the exchange of
// values in warps. What the threads run is the emulator's subject.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tandem::testing {

class FiberBlock {
 public:
  static constexpr int kMaxThreads = 1024, kWarp = 32;

  FiberBlock();
  FiberBlock(const FiberBlock&) = delete;
  FiberBlock& operator=(const FiberBlock&) = delete;

  // Runs body once per thread. "" or what broke the rules: threads that reach different numbers of barriers,
  // warps whose threads do not meet in an exchange. body must not throw.
  std::string run(int threads, const std::function<void()>& body);

  // Inside body:
  int thread() const { return current_; }
  void sync();
  // Replaces x by the x of the thread whose number differs by the bits of `mask`.
  void exchange(void* x, std::size_t bytes, int mask);

 private:
  enum class State { kReady, kAtBarrier, kInExchange, kDone };
  struct Fiber {
    ucontext_t context;
    State state = State::kReady;
    int exchanges = 0;
    alignas(16) std::byte slot[2][16];  // of even and odd exchanges
  };

  static void enter();
  void wait(State state);
  int count(int warp, State state) const;
  void release(int warp);
  // A fiber that is ready, or becomes so; -1: all are done or the rules are broken.
  int next();
  bool pass_barrier();
  void switch_to(int next, bool finished);

  std::vector<Fiber> fibers_;
  std::vector<std::byte> stacks_;
  ucontext_t main_;
  const std::function<void()>* body_ = nullptr;
  int threads_ = 0, current_ = 0;
  bool backwards_ = true;
  std::string error_;
};

}  // namespace tandem::testing
