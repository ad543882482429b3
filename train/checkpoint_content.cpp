// CheckpointContent to and from HDF5. Names, types and sizes are checked before memory is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/tensor/layout.h"
#include "data/hdf5_file.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

constexpr std::string_view kFormatText = "tandem checkpoint";
constexpr const char* kDtypeAttribute =
    "dtype";  // only where the stored type does not tell: F16 and BF16 as u16
constexpr std::size_t kMinParts = 2, kMaxParts = 4, kMaxPartLength = 255;
constexpr std::size_t kMaxObjects = 200000;

NumberType stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return NumberType::kF64;
    case DType::kF32:
      return NumberType::kF32;
    case DType::kF16:
    case DType::kBF16:
      return NumberType::kU16;
    case DType::kI64:
      return NumberType::kI64;
    case DType::kI32:
      return NumberType::kI32;
    case DType::kI16:
      return NumberType::kI16;
    case DType::kU8:
      break;
  }
  return NumberType::kU8;
}

// Why `name` cannot name a tensor; empty if it can.
std::string name_problem(std::string_view name) {
  std::size_t parts = 0;
  for (std::size_t begin = 0; begin <= name.size(); ++parts) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxPartLength)
      return "a part that is empty, '.', '..' or longer than 255";
    if (parts == 0 && (part == "state" || part == "meta")) return "a reserved first part";
    for (const char c : part)
      if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
          std::string_view("_.-+:").find(c) == std::string_view::npos)
        return fmt::format("character '{}'", c);
    begin = end + 1;
  }
  return parts < kMinParts || parts > kMaxParts ? fmt::format("{} parts", parts) : "";
}

void write_tensor(Hdf5File& file, const NamedTensor& named) {
  const std::string problem = name_problem(named.name);
  if (!problem.empty())
    fail(ErrorKind::kUsage,
         "[checkpoint] tensor name '{}': got {}, expected 2 to 4 parts of [A-Za-z0-9_.-+:]", named.name,
         problem);
  const Tensor& tensor = named.tensor;
  check_internal(tensor.defined(), "an undefined tensor in a checkpoint: " + named.name);
  file.write(named.name, stored_type(tensor.dtype()), tensor.shape().sizes(), logical_bytes(tensor));
  if (is_16_bit_float(tensor.dtype()))
    file.write_attribute(named.name, kDtypeAttribute,
                         std::vector<std::string>{std::string(name(tensor.dtype()))});
}

class Reader {
 public:
  Reader(const std::filesystem::path& path, const CheckpointHeader& header)
      : file_(Hdf5File::open(path, {.dataset_bytes = static_cast<std::int64_t>(header.payload_bytes)})),
        bytes_left_(static_cast<std::int64_t>(header.payload_bytes)) {}

  CheckpointContent content() {
    CheckpointContent content;
    visit_state(content, [&](const std::string& name, auto& value) {
      if (!read_scalar(name, value)) content.defaulted.push_back(name);
    });
    visit_texts(content, [&](const char* name, std::string& text) {
      if (file_.exists(name))
        text = file_.read_text(name, bytes_left_);
      else
        content.defaulted.emplace_back(name);
    });
    read_best(content);
    for (const std::string& group : file_.children("/"))
      if (group != "state" && group != "meta") read_group(content, group, 1);
    return content;
  }

  // False if the file has no such value.
  template <class T>
  bool read_scalar(const std::string& name, T& value) {
    using Stored = StoredType<T>;
    if (!file_.exists(name)) return false;
    const Hdf5DatasetInfo info = file_.info(name);
    if (!info.shape.empty() || info.type != number_type_of<Stored>())
      fail(ErrorKind::kCheckpoint, "[checkpoint] {}: {}: got {} of {} axes, expected one {}", file_.name(),
           name, number_name(info.type), info.shape.size(), number_name(number_type_of<Stored>()));
    value = static_cast<T>(file_.read<Stored>(name).front());
    return true;
  }

 private:
  void read_best(CheckpointContent& content) {
    if (!file_.exists("state/best/step")) return;
    take(file_.info("state/best/step"));
    take(file_.info("state/best/value"));
    const auto steps = file_.read<std::int64_t>("state/best/step");
    const auto values = file_.read<double>("state/best/value");
    if (steps.size() != values.size())
      fail(ErrorKind::kCheckpoint,
           "[checkpoint] {}: state/best: got {} steps and {} values, expected as many", file_.name(),
           steps.size(), values.size());
    for (std::size_t i = 0; i < steps.size(); ++i) content.best.push_back({steps[i], values[i]});
  }

  void read_group(CheckpointContent& content, const std::string& path, std::size_t depth) {
    for (const std::string& child : file_.children(path)) {
      const std::string name = path + "/" + child;
      if (++objects_ > kMaxObjects || depth >= kMaxParts)
        fail(ErrorKind::kCheckpoint, "[checkpoint] {}: {}: got more than {} objects or {} levels",
             file_.name(), name, kMaxObjects, kMaxParts);
      if (file_.is_group(name))
        read_group(content, name, depth + 1);
      else
        content.tensors.push_back({name, read_tensor(name)});
    }
  }

  Tensor read_tensor(const std::string& name) {
    const std::string problem = name_problem(name);
    if (!problem.empty())
      fail(ErrorKind::kCheckpoint, "[checkpoint] {}: '{}': got {} in a tensor's name", file_.name(), name,
           problem);
    const Hdf5DatasetInfo info = file_.info(name);
    if (info.shape.size() > static_cast<std::size_t>(Shape::kMaxRank))
      fail(ErrorKind::kCheckpoint, "[checkpoint] {}: {}: got {} axes, expected at most {}", file_.name(),
           name, info.shape.size(), Shape::kMaxRank);
    const DType dtype = dtype_of_dataset(name, info.type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(take(info)));
    file_.read(name, info.type, bytes);
    return tensor_of_logical_bytes(Shape(info.shape), dtype, bytes);
  }

  DType dtype_of_dataset(const std::string& name, NumberType type) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kI64, DType::kI32, DType::kI16, DType::kU8})
      if (stored_type(dtype) == type) return dtype;
    std::string said;
    if (file_.has_attribute(name, kDtypeAttribute)) {
      const std::vector<std::string> texts = file_.read_texts(name, kDtypeAttribute);
      if (texts.size() == 1) said = texts.front();
    }
    if (type == NumberType::kU16 && said == tandem::name(DType::kF16)) return DType::kF16;
    if (type == NumberType::kU16 && said == tandem::name(DType::kBF16)) return DType::kBF16;
    fail(ErrorKind::kCheckpoint,
         "[checkpoint] {}: {}: got type {} with dtype '{}', expected a type that tandem writes", file_.name(),
         name, number_name(type), said);
  }

  // Bytes of a dataset, taken from what the file can hold: nothing in it is compressed or shared.
  std::int64_t take(const Hdf5DatasetInfo& info) {
    const std::int64_t bytes = info.count() * static_cast<std::int64_t>(number_size(info.type));
    if (bytes > bytes_left_)
      fail(ErrorKind::kCheckpoint, "[checkpoint] {}: got more bytes declared than the file has",
           file_.name());
    bytes_left_ -= bytes;
    return bytes;
  }

  Hdf5File file_;
  std::int64_t bytes_left_;
  std::size_t objects_ = 0;
};

// HDF5's complaint about a file whose digest fits becomes one about the checkpoint.
template <class Read>
auto as_checkpoint_error(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kShape) throw;
    throw Error(ErrorKind::kCheckpoint, "[checkpoint] " + error.text(), error.hint());
  }
}

template <class Visit>
void visit_word(DType dtype, const Visit& visit) {
  switch (size_of(dtype)) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    case 4:
      return visit(std::uint32_t{});
    default:
      return visit(std::uint64_t{});
  }
}

}  // namespace

std::vector<std::byte> logical_bytes(const Tensor& tensor) {
  const Tensor host = tensor.device().kind == DeviceKind::kCuda ? tensor.to_device(kCpuDevice) : tensor;
  std::vector<std::byte> bytes(static_cast<std::size_t>(host.numel()) * size_of(host.dtype()));
  if (bytes.empty()) return bytes;
  visit_word(host.dtype(), [&](auto word) {
    using Word = decltype(word);
    const auto* from = static_cast<const Word*>(host.raw());
    auto* to = reinterpret_cast<Word*>(bytes.data());
    for_each_element(host.shape(), host.channel_pitch(),
                     [&](std::int64_t logical, std::int64_t stored) { to[logical] = from[stored]; });
  });
  return bytes;
}

Tensor tensor_of_logical_bytes(const Shape& shape, DType dtype, std::span<const std::byte> bytes) {
  Tensor tensor(shape, dtype, kCpuDevice, MemoryCategory::kOther);
  if (bytes.empty()) return tensor;
  visit_word(dtype, [&](auto word) {
    using Word = decltype(word);
    const auto* from = reinterpret_cast<const Word*>(bytes.data());
    auto* to = static_cast<Word*>(tensor.raw());
    for_each_element(shape, tensor.channel_pitch(),
                     [&](std::int64_t logical, std::int64_t stored) { to[stored] = from[logical]; });
  });
  return tensor;
}

std::string position_text(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> position(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(position, ", "));
}

std::vector<std::byte> to_image(const CheckpointContent& content) {
  Hdf5File file = Hdf5File::create_image();
  file.write_text("meta/format", fmt::format("{} {}", kFormatText, kCheckpointVersion));
  visit_texts(content, [&](const char* name, const std::string& text) { file.write_text(name, text); });
  visit_state(content, [&](const std::string& name, const auto& value) {
    using Stored = StoredType<std::remove_cvref_t<decltype(value)>>;
    const auto stored = static_cast<Stored>(value);
    file.write<Stored>(name, {}, std::span<const Stored>(&stored, 1));
  });
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  for (const RankedCheckpoint& entry : content.best) {
    steps.push_back(entry.step);
    values.push_back(entry.value);
  }
  const std::int64_t count[] = {static_cast<std::int64_t>(steps.size())};
  file.write<std::int64_t>("state/best/step", count, steps);
  file.write<double>("state/best/value", count, values);
  for (const NamedTensor& named : content.tensors) write_tensor(file, named);
  return file.image();
}

CheckpointContent read_content(const std::filesystem::path& path, const CheckpointHeader& header) {
  return as_checkpoint_error([&] { return Reader(path, header).content(); });
}

std::int64_t read_content_step(const std::filesystem::path& path, const CheckpointHeader& header) {
  return as_checkpoint_error([&] {
    std::int64_t step = -1;
    Reader(path, header).read_scalar("state/run/step", step);
    return step;
  });
}

}  // namespace tandem
