// The parts of a checkpoint file, shared by the checkpoint*.cpp files: the header, the names of the state,
// and the HDF5 image. Protocol and folders are checkpoint.h's subject.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "train/checkpoint.h"

namespace tandem {

inline constexpr std::size_t kCheckpointHeaderBytes = 512;  // the smallest HDF5 user block
inline constexpr std::uint32_t kCheckpointVersion = 1;

struct CheckpointHeader {
  std::uint64_t payload_bytes = 0;
  std::array<std::byte, 16> digest{};  // XXH3-128 of the payload, canonical (big-endian)
  std::int64_t step = 0;
};

std::array<std::byte, kCheckpointHeaderBytes> encode_header(const CheckpointHeader& header);
// Reads and checks the header against the size of the file; Error{kCheckpoint}.
CheckpointHeader read_header(const std::filesystem::path& path);
std::array<std::byte, 16> payload_digest(std::span<const std::byte> payload);
// Reads the payload in pieces and compares its digest; Error{kCheckpoint}.
void check_digest(const std::filesystem::path& path, const CheckpointHeader& header);

// The content as an HDF5 file image. Error{kUsage} for a bad tensor name.
std::vector<std::byte> to_image(const CheckpointContent& content);
// The content of a file whose digest has been checked.
CheckpointContent read_content(const std::filesystem::path& path, const CheckpointHeader& header);
// Only the step stored in the content.
std::int64_t read_content_step(const std::filesystem::path& path, const CheckpointHeader& header);

// The elements of `tensor` in logical order (N, C, taps), bit for bit. Any device and pitch.
std::vector<std::byte> logical_bytes(const Tensor& tensor);
// The reverse: a packed host tensor.
Tensor tensor_of_logical_bytes(const Shape& shape, DType dtype, std::span<const std::byte> bytes);
// Logical position of element `index`: "[0, 1, 2]".
std::string position_text(const Shape& shape, std::int64_t index);

// Calls visit(name, member) for every field of StepState, in the order of the struct.
template <class State, class Visit>
void visit_step_state(State& s, Visit&& visit) {
  static_assert(sizeof(StepState) == 120,
                "StepState has changed: name its new fields here and in docs/formats.md");
  visit("scale", s.scale);
  visit("inverse", s.inverse);
  visit("clip", s.clip);
  visit("lr", s.lr);
  visit("event", s.event);
  visit("weight_overflow", s.weight_overflow);
  visit("grad_norm", s.grad_norm);
  visit("good_steps", s.good_steps);
  visit("hysteresis_left", s.hysteresis_left);
  visit("consecutive_skips", s.consecutive_skips);
  visit("skips_at_min", s.skips_at_min);
  visit("consecutive_bad_loss", s.consecutive_bad_loss);
  visit("verdict", s.verdict);
  visit("attempted", s.attempted);
  visit("applied", s.applied);
  visit("skipped_overflow", s.skipped_overflow);
  visit("skipped_forward", s.skipped_forward);
  visit("last_overflow_step", s.last_overflow_step);
  visit("gradient_amax", s.gradient_amax);
  visit("interval_peak", s.interval_peak);
  visit("gradient_peak", s.gradient_peak);
  visit("sanitized", s.sanitized);
  visit("withheld_growths", s.withheld_growths);
  visit("early_backoffs", s.early_backoffs);
}

// The same for a watched metric; `name` goes in front.
template <class Watch, class Visit>
void visit_watch(const std::string& name, Watch& w, Visit&& visit) {
  visit(name + "_best", w.best);
  visit(name + "_improved", w.improved);
  visit(name + "_bad", w.bad);
  visit(name + "_last_step", w.last_step);
}

// The same for the numbers of the run.
template <class Content, class Visit>
void visit_run_state(Content& c, Visit&& visit) {
  visit("step", c.step);
  visit("epoch", c.epoch);
  visit("epoch_position", c.epoch_position);
  visit("total_steps", c.total_steps);
  visit_watch("early_stop", c.early_stop, visit);
  visit_watch("plateau", c.plateau.watch, visit);
  visit("plateau_cooldown_left", c.plateau.cooldown_left);
  visit("plateau_factor", c.plateau.factor);
}

// All of them with their paths in the file: "state/scaler/scale", "state/run/step".
template <class Content, class Visit>
void visit_state(Content& content, Visit&& visit) {
  visit_step_state(content.state,
                   [&](const char* name, auto& value) { visit(std::string("state/scaler/") + name, value); });
  visit_run_state(content, [&](const std::string& name, auto& value) { visit("state/run/" + name, value); });
}

// The texts, "meta/config_yaml" and so on.
template <class Content, class Visit>
void visit_texts(Content& content, Visit&& visit) {
  visit("meta/config_yaml", content.config_yaml);
  visit("meta/environment_json", content.environment_json);
  visit("meta/engine_choices", content.engine_choices);
}

// The type in which a state value is stored: enums as their integer.
template <class T>
using StoredType =
    typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>::type;

}  // namespace tandem
