// Batches of a dataset in a fixed order, prepared ahead by worker threads. What a sample is, is the dataset's
// subject.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace tandem {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;           // a new permutation each epoch, else in order
  std::int64_t first_batch = 0;  // batches handed out before: a resumed run goes on with this one
  std::optional<std::int64_t> workers =
      0;                      // 0: next() makes the batch itself; nullopt: by the cores of this machine
  std::int64_t prefetch = 2;  // batches ready or in work ahead of next(), >= 1
  // Asked while next() waits for workers: true ends it with Error{kStopped}.
  std::function<bool()> stop_requested;
  // After waiting that long next() warns, naming the samples in work.
  std::chrono::milliseconds patience{30'000};
};

struct Batch {
  Tensor image;   // F32 [N, C, D, H, W]
  Tensor label;   // I32 [N, 1, D, H, W]
  Tensor weight;  // F32 [N, 1, D, H, W], or undefined
  std::vector<std::string> ids;
  std::vector<Index3> origins;
  std::int64_t number = 0;  // 0, 1, 2, ... of the run
  double wait_ms = 0;       // how long next() waited for it
};

// Batch b holds the samples at positions b * batch_size .. of the endless row of epochs: position p is sample
// permutation(epoch)[p % size] of epoch p / size. The same batches for any number of workers, and for any
// first_batch. Workers run at nice 19 and open no parallel region.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // Stops and joins the workers; a sample in work is finished first. A worker that hangs in one (a dead file
  // system) is left behind after ten seconds, with a warning.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. Rethrows what the dataset threw for a sample of it (of the first such sample in order),
  // and again on each later call.
  Batch next();
  int workers() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the workers
};

}  // namespace tandem
