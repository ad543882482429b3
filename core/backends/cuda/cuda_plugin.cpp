// dlopen of the plug-in, the checks before it is trusted, and what it says of its devices.
#include "core/backends/cuda/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "core/backends/cuda/plugin_abi.h"
#include "core/backends/cuda/plugin_hash.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileName = "libtandem_cuda.so";
constexpr std::string_view kNone = "no CUDA device: ";
// cuDNN 9.8 to 9.13 computed 3-D convolutions of 16-bit operands wrongly, 9.10.2 up to 9.15 those in TF32.
constexpr std::int64_t kOldestCudnn = 91500;
// The kernels above DeviceApi are not part of this build: no device may be chosen yet.
constexpr bool kBackendIsComplete = false;
constexpr std::int32_t kMostDevices = 64;

struct Functions {
  decltype(&tandem_cuda_probe) probe = nullptr;
  decltype(&tandem_cuda_describe) describe = nullptr;
  decltype(&tandem_cuda_create) create = nullptr;
  decltype(&tandem_cuda_destroy) destroy = nullptr;
};

struct Opened {
  Plugin plugin;
  Functions functions;
};

using Text = std::array<char, 2048>;

// What a plug-in or the loader wrote, as one line.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) line.push_back(static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c);
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string one_line(Text& text) {
  text.back() = '\0';
  return one_line(std::string_view(text.data()));
}

std::string loader_text() {
  const char* const text = ::dlerror();
  return one_line(text == nullptr ? "no reason given" : text);
}

// The file of $TANDEM_PLUGIN_PATH or beside the program; empty where neither exists.
fs::path find_file() {
  std::error_code error;
  const char* const variable = std::getenv("TANDEM_PLUGIN_PATH");
  if (variable != nullptr && *variable != '\0') {
    fs::path file = fs::absolute(variable, error);
    if (fs::is_directory(file, error)) file /= kFileName;
    if (fs::exists(file, error)) return file;
    log_warning("[device] TANDEM_PLUGIN_PATH: {} does not exist; looking elsewhere", file.string());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.parent_path() / kFileName;
  return !program.empty() && fs::exists(beside, error) ? beside : fs::path();
}

// Why dlopen refused `file` (empty: the loader looked for it).
std::string loader_reason(const std::string& file, std::string_view text) {
  const std::string own = file.empty() ? std::string(kFileName) : file;
  const bool names_it = text.starts_with(own + ": ");
  const std::string_view what = names_it ? text.substr(own.size() + 2) : text;
  if (file.empty() && names_it && what.starts_with("cannot open shared object file"))
    return fmt::format(
        "no plug-in: {} is neither in TANDEM_PLUGIN_PATH, nor beside the program, nor where "
        "the loader looks",
        kFileName);
  if (!names_it && what.find("cannot open shared object file") != std::string_view::npos)
    return fmt::format("the plug-in {} needs a library that is missing: {}", own, what);
  return fmt::format("the plug-in {} cannot be loaded: {}", own, what);
}

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// Opens the file and finds its functions; "" or why not. A library whose functions were called is never
// closed: those of CUDA do not stand it.
std::string load(Opened& opened) {
  opened.plugin.file = find_file().string();
  const std::string& file = opened.plugin.file;
  void* const library = ::dlopen(file.empty() ? kFileName.data() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return loader_reason(file, loader_text());
  decltype(&tandem_cuda_abi) abi = nullptr;
  Functions& functions = opened.functions;
  const bool complete = find(library, "tandem_cuda_abi", abi) &&
                        find(library, "tandem_cuda_probe", functions.probe) &&
                        find(library, "tandem_cuda_describe", functions.describe) &&
                        find(library, "tandem_cuda_create", functions.create) &&
                        find(library, "tandem_cuda_destroy", functions.destroy);
  Dl_info place{};
  if (file.empty() && abi != nullptr && ::dladdr(reinterpret_cast<void*>(abi), &place) != 0)
    opened.plugin.file = place.dli_fname;
  if (!complete) return fmt::format("{} is no plug-in of Tandem: {}", opened.plugin.file, loader_text());
  const std::uint64_t theirs = abi();
  if (theirs == plugin_abi()) return "";
  return fmt::format("the plug-in {} is of another build: got interface {:016x}, expected {:016x}",
                     opened.plugin.file, theirs, plugin_abi());
}

std::string version(std::int64_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string cuda_version(std::int64_t number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// Adds the device that `text` describes; "" or why it is refused. Throws nlohmann's errors for other text.
std::string add_device(std::vector<DeviceDescription>& devices, const std::string& text) {
  const auto object = nlohmann::json::parse(text);
  const auto number = [&](const char* key) { return object.at(key).get<std::int64_t>(); };
  const std::int64_t cudnn = number("cudnn");
  devices.push_back({.name = one_line(object.at("name").get<std::string>()),
                     .compute_capability = one_line(object.at("compute_capability").get<std::string>()),
                     .memory_bytes = number("memory_bytes"),
                     .multiprocessors = number("multiprocessors"),
                     .driver = cuda_version(number("driver")),
                     .runtime = cuda_version(number("runtime")),
                     .cudnn = version(cudnn),
                     .cublaslt = version(number("cublaslt"))});
  if (cudnn >= kOldestCudnn) return "";
  return fmt::format(
      "cuDNN {} is too old, at least 9.15 is needed: FP16 and BF16 3-D convolutions give wrong "
      "results",
      version(cudnn));
}

// Asks for the devices; "" or why none is used.
std::string ask(Opened& opened) {
  Text text{};
  const std::int32_t count = opened.functions.probe(text.data(), static_cast<std::int32_t>(text.size()));
  if (count <= 0) return one_line(text);
  std::string reason;
  for (std::int32_t i = 0; i < std::min(count, kMostDevices); ++i) {
    text = {};
    if (!opened.functions.describe(i, text.data(), static_cast<std::int32_t>(text.size())))
      return fmt::format("device {} does not answer: {}", i, one_line(text));
    try {
      const std::string refused = add_device(opened.plugin.devices, one_line(text));
      if (reason.empty()) reason = refused;
    } catch (const nlohmann::json::exception&) {
      return fmt::format("the plug-in {} describes device {} as '{}', expected a JSON object",
                         opened.plugin.file, i, one_line(text));
    }
  }
  if (reason.empty() && !kBackendIsComplete)
    reason = fmt::format("{} is there, but the CUDA backend is not complete in this build",
                         opened.plugin.devices.front().name);
  return reason;
}

Opened look() {
  Opened opened;
  std::string reason = load(opened);
  if (reason.empty()) reason = ask(opened);
  if (!reason.empty()) opened.plugin.reason = fmt::format("{}{}", kNone, reason);
  return opened;
}

// Never destroyed: a backend that lives until the end of the process closes its device through it.
const Opened& opened() {
  static const Opened& once = *new Opened(look());
  return once;
}

}  // namespace

const Plugin& plugin() { return opened().plugin; }

void DestroyDevice::operator()(DeviceApi* api) const { opened().functions.destroy(api); }

DevicePointer open_device(std::int64_t index) {
  const auto devices = static_cast<std::int64_t>(plugin().devices.size());
  if (index < 0 || index >= devices)
    fail(ErrorKind::kDevice, "[device] cuda:{}: got device {}, expected a number below {}", index, index,
         devices);
  Text text{};
  DeviceApi* const api = opened().functions.create(static_cast<std::int32_t>(index), text.data(),
                                                   static_cast<std::int32_t>(text.size()));
  if (api == nullptr) fail(ErrorKind::kDevice, "[device] cuda:{}: {}", index, one_line(text));
  return DevicePointer(api);
}

}  // namespace tandem::cuda
