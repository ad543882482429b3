// Looking things up in a CheckpointContent: by name for a model, and value by value for a comparison.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

struct StateValue {
  std::vector<std::byte> bits;
  std::string text;
};

template <class T>
StateValue state_value(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {{bytes.begin(), bytes.end()}, fmt::format("{}", value)};
}

// Every number of the state by its name in the file.
std::map<std::string, StateValue> state_values(const CheckpointContent& content) {
  std::map<std::string, StateValue> values;
  visit_state(content, [&](const std::string& name, const auto& value) {
    values[name] = state_value(static_cast<StoredType<std::remove_cvref_t<decltype(value)>>>(value));
  });
  for (std::size_t i = 0; i < content.best.size(); ++i) {
    values[fmt::format("state/best/step[{}]", i)] = state_value(content.best[i].step);
    values[fmt::format("state/best/value[{}]", i)] = state_value(content.best[i].value);
  }
  return values;
}

std::map<std::string, const Tensor*> tensors_by_name(const CheckpointContent& content) {
  std::map<std::string, const Tensor*> tensors;
  for (const NamedTensor& named : content.tensors) tensors[named.name] = &named.tensor;
  return tensors;
}

// The first element that differs, how many do and by how much; equal tensors give no text.
std::string tensor_difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype())
    return fmt::format("{}, {}", to_string(a), to_string(b));
  const std::vector<std::byte> left = logical_bytes(a), right = logical_bytes(b);
  if (left == right) return "";
  const std::size_t size = size_of(a.dtype());
  const std::vector<double> x = a.to_values(), y = b.to_values();
  std::int64_t count = 0, first = -1;
  double largest = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (std::memcmp(left.data() + at * size, right.data() + at * size, size) == 0) continue;
    if (count++ == 0) first = i;
    const double distance = std::abs(x[at] - y[at]);
    if (!(distance <= largest)) largest = distance;  // NaN stays
  }
  const auto at = static_cast<std::size_t>(first);
  return fmt::format("{} of {} differ by up to {:.3g}, first at {}: {}, {}", count,
                     counted(a.numel(), "value"), largest, position_text(a.shape(), first), x[at], y[at]);
}

// Adds the keys in which two maps differ; difference(value, value) is empty where they do not.
template <class Value, class Difference>
void add_differences(const std::map<std::string, Value>& a, const std::map<std::string, Value>& b,
                     const Difference& difference, std::vector<CheckpointDifference>& found) {
  auto left = a.begin();
  auto right = b.begin();
  while (left != a.end() || right != b.end()) {
    if (right == b.end() || (left != a.end() && left->first < right->first)) {
      found.push_back({left++->first, "only in the first"});
    } else if (left == a.end() || right->first < left->first) {
      found.push_back({right++->first, "only in the second"});
    } else {
      const std::string text = difference(left->second, right->second);
      if (!text.empty()) found.push_back({left->first, text});
      ++left;
      ++right;
    }
  }
}

std::string group_of(std::string_view name) { return std::string(name.substr(0, name.find('/'))); }

// One line per target that `content` cannot fill and per tensor of the targets' groups that no target takes.
std::vector<std::string> misfits(const CheckpointContent& content, std::span<const NamedTensor> targets) {
  std::vector<std::string> lines;
  std::set<std::string> names, groups;
  for (const NamedTensor& target : targets) {
    names.insert(target.name);
    groups.insert(group_of(target.name));
    const Tensor* source = content.find(target.name);
    if (source == nullptr)
      lines.push_back(fmt::format("{}: file nothing, model {}", target.name, to_string(target.tensor)));
    else if (!(source->shape() == target.tensor.shape()) || source->dtype() != target.tensor.dtype())
      lines.push_back(
          fmt::format("{}: file {}, model {}", target.name, to_string(*source), to_string(target.tensor)));
  }
  for (const NamedTensor& named : content.tensors)
    if (groups.contains(group_of(named.name)) && !names.contains(named.name))
      lines.push_back(fmt::format("{}: file {}, model nothing", named.name, to_string(named.tensor)));
  return lines;
}

void copy_values(const Tensor& source, const Tensor& target) {
  const Tensor packed = source.to_device(target.device());
  const std::size_t row_bytes = static_cast<std::size_t>(target.channels()) * size_of(target.dtype());
  DeviceMemory& memory = target.storage()->allocator().memory();
  const auto* from = static_cast<const std::byte*>(packed.raw());
  auto* to = static_cast<std::byte*>(target.raw());
  const std::size_t pitch_bytes = static_cast<std::size_t>(target.channel_pitch()) * size_of(target.dtype());
  if (target.is_packed()) return memory.copy(to, from, static_cast<std::size_t>(target.rows()) * row_bytes);
  for (std::int64_t row = 0; row < target.rows(); ++row)
    memory.copy(to + static_cast<std::size_t>(row) * pitch_bytes,
                from + static_cast<std::size_t>(row) * row_bytes, row_bytes);
}

}  // namespace

const Tensor* CheckpointContent::find(std::string_view name) const {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& t) { return t.name == name; });
  return at == tensors.end() ? nullptr : &at->tensor;
}

const Tensor& require_tensor(const CheckpointContent& content, std::string_view name, const Shape& shape) {
  const Tensor* tensor = content.find(name);
  if (tensor == nullptr)
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: got no such tensor in the file, expected shape {}", name,
         to_string(shape));
  if (!(tensor->shape() == shape))
    fail(ErrorKind::kCheckpoint, "[checkpoint] {}: got shape {} in the file, expected {}", name,
         to_string(tensor->shape()), to_string(shape));
  return *tensor;
}

void restore_tensors(const CheckpointContent& content, std::span<const NamedTensor> targets) {
  std::vector<std::string> lines = misfits(content, targets);
  if (!lines.empty()) {
    constexpr std::size_t kShown = 5;
    const std::size_t count = lines.size();
    if (count > kShown) {
      lines.resize(kShown);
      lines.push_back(fmt::format("and {} more", count - kShown));
    }
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("[checkpoint] the checkpoint of step {} does not fit the model ({}, {} "
                            "expected)\n  {}",
                            content.step, counted(count, "difference"), counted(targets.size(), "tensor"),
                            fmt::join(lines, "\n  ")),
                "Use the job file that the checkpoint was made with (tandem ckpt show FILE).");
  }
  for (const NamedTensor& target : targets) copy_values(*content.find(target.name), target.tensor);
}

std::vector<CheckpointDifference> all_differences(const CheckpointContent& a, const CheckpointContent& b) {
  std::vector<CheckpointDifference> found;
  add_differences(
      tensors_by_name(a), tensors_by_name(b),
      [](const Tensor* x, const Tensor* y) { return tensor_difference(*x, *y); }, found);
  add_differences(
      state_values(a), state_values(b),
      [](const StateValue& x, const StateValue& y) {
        return x.bits == y.bits ? std::string() : fmt::format("{}, {}", x.text, y.text);
      },
      found);
  return found;
}

std::optional<CheckpointDifference> diff_checkpoints(const CheckpointContent& a, const CheckpointContent& b) {
  const std::vector<CheckpointDifference> found = all_differences(a, b);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace tandem
