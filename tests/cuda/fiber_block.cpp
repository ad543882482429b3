// Fibers switch to each other directly. A warp runs ahead until it waits at a barrier, so that what lacks one
// goes wrong; every other run begins with the last warp.
#include "tests/cuda/fiber_block.h"

#include <cstring>

namespace tandem::testing {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

FiberBlock* running = nullptr;  // makecontext passes no pointers

}  // namespace

FiberBlock::FiberBlock() : fibers_(kMaxThreads) {}

std::string FiberBlock::run(int threads, const std::function<void()>& body) {
  if (threads < kWarp || threads > kMaxThreads || threads % kWarp != 0)
    return "a block of " + std::to_string(threads) + " threads";
  threads_ = threads;
  body_ = &body;
  error_.clear();
  running = this;
  stacks_.resize(std::max(stacks_.size(), static_cast<std::size_t>(threads) * kStackBytes));
  for (int t = 0; t < threads; ++t) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(t)];
    fiber.state = State::kReady;
    fiber.exchanges = 0;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks_.data() + static_cast<std::size_t>(t) * kStackBytes;
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &FiberBlock::enter, 0);
  }
  backwards_ = !backwards_;
  current_ = backwards_ ? threads - kWarp : 0;
  swapcontext(&main_, &fibers_[static_cast<std::size_t>(current_)].context);
  return error_;
}

void FiberBlock::enter() {
  FiberBlock& block = *running;
  (*block.body_)();
  block.fibers_[static_cast<std::size_t>(block.current_)].state = State::kDone;
  block.switch_to(block.next(), true);
}

void FiberBlock::switch_to(int next, bool finished) {
  const int from = current_;
  ucontext_t* const target = next < 0 ? &main_ : &fibers_[static_cast<std::size_t>(next)].context;
  if (next >= 0) current_ = next;
  if (next == from && !finished) return;
  swapcontext(&fibers_[static_cast<std::size_t>(from)].context, target);
}

int FiberBlock::count(int warp, State state) const {
  int count = 0;
  for (int t = warp * kWarp; t < (warp + 1) * kWarp; ++t)
    count += fibers_[static_cast<std::size_t>(t)].state == state ? 1 : 0;
  return count;
}

void FiberBlock::release(int warp) {
  for (int t = warp * kWarp; t < (warp + 1) * kWarp; ++t)
    fibers_[static_cast<std::size_t>(t)].state = State::kReady;
}

int FiberBlock::next() {
  const int warps = threads_ / kWarp, first = current_ / kWarp;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < warps; ++i) {
      const int warp = (first + (backwards_ ? warps - i : i)) % warps;
      if (count(warp, State::kInExchange) == kWarp) release(warp);
      for (int t = warp * kWarp; t < (warp + 1) * kWarp; ++t)
        if (fibers_[static_cast<std::size_t>(t)].state == State::kReady) return t;
    }
    if (!pass_barrier()) return -1;
  }
  return -1;
}

// No fiber is ready and no warp has met: all are at the barrier, or done, or the rules are broken.
bool FiberBlock::pass_barrier() {
  int done = 0, at_barrier = 0;
  for (int warp = 0; warp < threads_ / kWarp; ++warp) {
    if (const int waiting = count(warp, State::kInExchange); waiting != 0) {
      error_ = "an exchange that " + std::to_string(kWarp - waiting) + " threads of a warp do not reach";
      return false;
    }
    done += count(warp, State::kDone);
    at_barrier += count(warp, State::kAtBarrier);
  }
  if (done == threads_) return false;
  if (at_barrier != threads_) {
    error_ = "a barrier that " + std::to_string(done) + " threads of a block do not reach";
    return false;
  }
  for (int warp = 0; warp < threads_ / kWarp; ++warp) release(warp);
  return true;
}

void FiberBlock::wait(State state) {
  fibers_[static_cast<std::size_t>(current_)].state = state;
  switch_to(next(), false);
}

void FiberBlock::sync() { wait(State::kAtBarrier); }

// One meeting per exchange: no thread is two exchanges ahead of another of its warp, so two slots suffice.
void FiberBlock::exchange(void* x, std::size_t bytes, int mask) {
  const int other = current_ ^ mask;
  if (mask < 0 || mask >= kWarp || bytes > sizeof(Fiber::slot[0])) std::abort();
  Fiber& mine = fibers_[static_cast<std::size_t>(current_)];
  const int slot = mine.exchanges++ % 2;
  std::memcpy(mine.slot[slot], x, bytes);
  wait(State::kInExchange);
  std::memcpy(x, fibers_[static_cast<std::size_t>(other)].slot[slot], bytes);
}

}  // namespace tandem::testing
