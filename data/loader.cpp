// Worker threads take samples in order; the thread that finishes the last sample of a batch stacks it.
#include "data/loader.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/parallel.h"
#include "core/base/rng.h"

namespace tandem {
namespace {

constexpr int kWorkerNice = 19;
constexpr int kMaxAutoWorkers = 8;

using Clock = std::chrono::steady_clock;

// [1, ...] tensors of the samples, one after the other: packed tensors of batch 1 are contiguous blocks.
Tensor stack(const std::vector<Sample>& samples, Tensor Sample::*part) {
  const Tensor& first = samples.front().*part;
  Tensor result(first.shape().with(0, static_cast<std::int64_t>(samples.size())), first.dtype(), kCpuDevice,
                MemoryCategory::kData);
  const std::size_t bytes = static_cast<std::size_t>(first.numel()) * size_of(first.dtype());
  auto* target = static_cast<std::byte*>(result.raw());
  for (const Sample& sample : samples) {
    const Tensor& tensor = sample.*part;
    if (tensor.shape() != first.shape() || tensor.dtype() != first.dtype())
      fail(ErrorKind::kData, "[loader] sample '{}': got {}, expected {} as '{}' of the same batch", sample.id,
           to_string(tensor), to_string(first), samples.front().id);
    std::memcpy(target, tensor.raw(), bytes);
    target += bytes;
  }
  return result;
}

Batch make_batch(std::vector<Sample> samples, std::int64_t number) {
  Batch batch{
      .image = stack(samples, &Sample::image), .label = stack(samples, &Sample::label), .number = number};
  if (samples.front().weight.defined()) batch.weight = stack(samples, &Sample::weight);
  for (Sample& sample : samples) {
    batch.ids.push_back(std::move(sample.id));
    batch.origins.push_back(sample.origin);
  }
  return batch;
}

int worker_count(const std::optional<std::int64_t>& workers) {
  if (workers) return static_cast<int>(*workers);
  return std::clamp(usable_cores() / 2, 1, kMaxAutoWorkers);
}

}  // namespace

struct Loader::State {
  // A batch in work: its samples, the first error in order, and the batch once all samples are there.
  struct Pending {
    std::vector<Sample> samples;
    std::vector<std::exception_ptr> errors;
    std::int64_t left = 0;
    Batch batch;
    bool ready = false;
  };

  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  std::mutex mutex;
  std::condition_variable work, done;
  std::deque<std::unique_ptr<Pending>> pending;  // batches next_batch, next_batch + 1, ...
  std::int64_t next_batch = 0;                   // to be handed out
  std::int64_t next_sample = 0;                  // position of the next sample to be taken up
  std::exception_ptr failure;
  bool stop = false;
  std::vector<std::thread> threads;
  int running = 0;                   // workers that have not returned
  std::set<std::int64_t> in_work{};  // positions

  std::int64_t index_of(std::int64_t position) const;
  std::string samples_in_work() const;
  void wait_for_batch(std::unique_lock<std::mutex>& lock, Clock::time_point start);
  Sample make_sample(std::int64_t position) const;
  void run_worker();
  void finish(Pending& batch, std::int64_t number);
};

std::int64_t Loader::State::index_of(std::int64_t position) const {
  const std::int64_t size = dataset->size(), index = position % size;
  return options.shuffle
             ? permuted_index(options.seed, static_cast<std::uint64_t>(position / size), size, index)
             : index;
}

std::string Loader::State::samples_in_work() const {
  std::string text;
  for (const std::int64_t position : in_work)
    text += (text.empty() ? "" : ", ") + dataset->name(index_of(position));
  return text.empty() ? "none" : text;
}

// Called with the lock.
void Loader::State::wait_for_batch(std::unique_lock<std::mutex>& lock, Clock::time_point start) {
  constexpr std::chrono::milliseconds kGlance{50};
  const auto is_ready = [&] { return !pending.empty() && pending.front()->ready; };
  bool warned = false;
  while (!done.wait_for(lock, kGlance, is_ready)) {
    if (options.stop_requested && options.stop_requested())
      fail(ErrorKind::kStopped, "[loader] stopped while waiting for batch {}", next_batch);
    if (warned || Clock::now() - start < options.patience) continue;
    warned = true;
    log_warning("[loader] batch {} is not ready after {:.0f} s; samples in work: {}", next_batch,
                std::chrono::duration<double>(Clock::now() - start).count(), samples_in_work());
  }
}

Sample Loader::State::make_sample(std::int64_t position) const {
  const auto epoch = static_cast<std::uint64_t>(position / dataset->size());
  const std::int64_t index = index_of(position);
  return dataset->get(index, {.seed = options.seed,
                              .epoch = epoch,
                              .sample = static_cast<std::uint64_t>(index),
                              .slot = position % options.batch_size,
                              .batch_size = options.batch_size});
}

// Stacks the samples of a complete batch; an error stays with the batch. Called without the lock.
void Loader::State::finish(Pending& batch, std::int64_t number) {
  const auto first = std::find_if(batch.errors.begin(), batch.errors.end(),
                                  [](const auto& error) { return error != nullptr; });
  if (first != batch.errors.end()) return;
  try {
    batch.batch = make_batch(std::move(batch.samples), number);
  } catch (...) {
    batch.errors.front() = std::current_exception();
  }
}

void Loader::State::run_worker() {
  setpriority(PRIO_PROCESS, 0, kWorkerNice);  // of this thread only, on Linux; failure costs only fairness
  std::unique_lock lock(mutex);
  while (true) {
    const auto may_start = [&] { return next_sample / options.batch_size < next_batch + options.prefetch; };
    work.wait(lock, [&] { return stop || may_start(); });
    if (stop) break;
    const std::int64_t position = next_sample++;
    in_work.insert(position);
    const std::int64_t number = position / options.batch_size;
    const auto slot = static_cast<std::size_t>(position % options.batch_size);
    if (slot == 0) {
      const auto n = static_cast<std::size_t>(options.batch_size);
      pending.push_back(std::make_unique<Pending>());
      pending.back()->samples.resize(n);
      pending.back()->errors.resize(n);
      pending.back()->left = options.batch_size;
    }
    Pending& batch = *pending[static_cast<std::size_t>(number - next_batch)];
    lock.unlock();
    Sample sample;
    std::exception_ptr error;
    try {
      sample = make_sample(position);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    batch.samples[slot] = std::move(sample);
    batch.errors[slot] = error;
    in_work.erase(position);
    if (--batch.left > 0) continue;
    lock.unlock();
    finish(batch, number);
    lock.lock();
    batch.ready = true;
    done.notify_all();
  }
  --running;
  done.notify_all();
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : state_(std::make_shared<State>()) {
  check_internal(options.batch_size >= 1 && options.prefetch >= 1 && options.first_batch >= 0,
                 "loader options out of range");
  state_->dataset = std::move(dataset);
  state_->options = options;
  state_->next_batch = options.first_batch;
  state_->next_sample = options.first_batch * options.batch_size;
  state_->running = worker_count(options.workers);
  for (int i = 0; i < state_->running; ++i)
    state_->threads.emplace_back([state = state_] { state->run_worker(); });
}

Loader::~Loader() {
  constexpr std::chrono::seconds kPatience{10};
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->work.notify_all();
  const bool all_returned = state_->done.wait_for(lock, kPatience, [&] { return state_->running == 0; });
  if (!all_returned)
    log_warning("[loader] workers that hang are left behind; samples in work: {}", state_->samples_in_work());
  lock.unlock();
  for (std::thread& thread : state_->threads) all_returned ? thread.join() : thread.detach();
}

int Loader::workers() const { return static_cast<int>(state_->threads.size()); }

Batch Loader::next() {
  State& s = *state_;
  const auto start = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); };
  if (s.failure) std::rethrow_exception(s.failure);
  if (s.threads.empty()) {
    std::vector<Sample> samples;
    try {
      for (std::int64_t i = 0; i < s.options.batch_size; ++i)
        samples.push_back(s.make_sample(s.next_batch * s.options.batch_size + i));
      Batch batch = make_batch(std::move(samples), s.next_batch);
      ++s.next_batch;
      batch.wait_ms = waited();
      return batch;
    } catch (...) {
      s.failure = std::current_exception();
      throw;
    }
  }
  std::unique_lock lock(s.mutex);
  s.wait_for_batch(lock, start);
  for (const std::exception_ptr& error : s.pending.front()->errors)
    if (error) {
      s.failure = error;
      std::rethrow_exception(error);
    }
  Batch batch = std::move(s.pending.front()->batch);
  s.pending.pop_front();
  ++s.next_batch;
  s.work.notify_all();
  batch.wait_ms = waited();
  return batch;
}

}  // namespace tandem
