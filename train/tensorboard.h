// TensorBoard event files: our own small writer of the TFRecord frame and of the protobuf messages Event,
// Summary and SessionLog, scalars only. What is written when is train/run_log's.
//
// A file is a row of records: length u64, masked CRC-32C of the length u32, data, masked CRC-32C of the data
// u32, all little-endian; mask(c) = rotate_right(c, 15) + 0xa282ead8 (tensorflow/core/lib/io/record_writer.h,
// lib/hash/crc32c.h). Data is an Event (tensorflow/core/util/event.proto): wall_time 1, step 2, file_version
// 3, summary 5, session_log 7.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/append_file.h"

namespace tandem {

// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

// One record around `data`.
std::string tf_record(std::string_view data);

using Scalars = std::vector<std::pair<std::string, double>>;  // tag and value, stored as FP32
// Events as bytes (the data of a record). wall_time: seconds since 1970.
std::string version_event(double wall_time);
std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars);
// A (re)start before `step`: TensorBoard forgets what it read of `step` and later ones.
std::string session_start_event(double wall_time, std::int64_t step);

// Writes a new file events.out.tfevents.<seconds>.<NNN> of a run folder; a full disk does not stop it
// (AppendFile).
class TensorboardWriter {
 public:
  // `first_step`: the first step that will follow. Error{kResource} if the file cannot be made.
  TensorboardWriter(const std::filesystem::path& folder, std::int64_t first_step);
  void write(std::int64_t step, const Scalars& scalars);

 private:
  std::unique_ptr<AppendFile> file_;
};

// The event files of `folder`, in the order in which TensorBoard reads them.
std::vector<std::filesystem::path> tensorboard_files(const std::filesystem::path& folder);

// Cuts every event file of `folder` after its last whole record of `step` or an earlier one, at the first
// record that is damaged or later; removes files that hold no more than their version. Returns whether
// anything was cut. Error{kResource}.
bool truncate_tensorboard(const std::filesystem::path& folder, std::int64_t step);

}  // namespace tandem
