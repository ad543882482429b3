// `tandem doctor`: what this machine offers a training run, and what stands in its way. Reads /proc, /sys and
// the CPU; changes nothing. CUDA devices: doctor_device.h.
#include <fmt/core.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/doctor_device.h"
#include "apps/version.h"
#include "core/backends/cpu/isa.h"
#include "core/base/files.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// What follows the first line of `file` that starts with `key` and a colon; "" if there is none.
std::string proc_value(const char* file, std::string_view key) {
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::string first_line(const char* file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "16384 kB" -> bytes; -1 if absent.
std::int64_t meminfo_bytes(std::string_view key) {
  const std::string text = proc_value("/proc/meminfo", key);
  return text.empty() ? -1 : std::strtoll(text.c_str(), nullptr, 10) * 1024;
}

// The limit of this control group; -1: none.
std::int64_t cgroup_memory_bytes() {
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const std::string text = first_line(file);
    if (text.empty() || text == "max") continue;
    const std::int64_t bytes = std::strtoll(text.c_str(), nullptr, 10);
    if (bytes < (std::int64_t{1} << 50)) return bytes;
  }
  return -1;
}

// "always [madvise] never" -> "madvise".
std::string huge_page_mode() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? "unknown"
                                                                 : line.substr(open + 1, close - open - 1);
}

bool has_cpu_flag(std::string_view flag) {
  const std::string flags = fmt::format(" {} ", proc_value("/proc/cpuinfo", "flags"));
  return flags.find(fmt::format(" {} ", flag)) != std::string::npos;
}

std::string amx_state(const CpuTarget& detected) {
  if (!has_cpu_flag("amx_bf16")) return "the CPU has none";
  return detected.isa == CpuIsa::kAmx ? "permitted" : "the CPU has it, the kernel does not permit it";
}

Json examine() {
  const CpuTarget detected = detect_cpu();
  const CpuTarget used = cpu_target();
  Json out;
  out["version"] = version_text();
  out["cpu"] = proc_value("/proc/cpuinfo", "model name");
  out["isa"] = {{"available", name(detected.isa)},
                {"used", name(used.isa)},
                {"avx512_bf16", used.avx512_bf16},
                {"amx", amx_state(detected)}};
  out["threads"] = {{"usable_cores", usable_cores()}, {"hardware", std::thread::hardware_concurrency()}};
  out["memory"] = {{"total_bytes", meminfo_bytes("MemTotal")},
                   {"available_bytes", meminfo_bytes("MemAvailable")},
                   {"limit_bytes", cgroup_memory_bytes()},
                   {"transparent_huge_pages", huge_page_mode()}};
  out["disk"] = {{"free_bytes", free_disk_bytes(".")}};
  out["cuda"] = examine_cuda();
  out["device"] = out["cuda"]["usable"].get<bool>() ? "cuda:0" : "cpu";
  for (const auto& [library, version] : library_versions()) out["libraries"][library] = version;
  return out;
}

std::vector<std::string> advice(const Json& machine) {
  std::vector<std::string> lines;
  if (machine["isa"]["available"] != machine["isa"]["used"])
    lines.push_back("TANDEM_ISA lowers the instruction set that is used.");
  if (machine["isa"]["amx"] == "the CPU has it, the kernel does not permit it")
    lines.push_back("AMX is present but not permitted: a kernel of version 5.16 or later is needed.");
  if (machine["memory"]["transparent_huge_pages"] == "never")
    lines.push_back(
        "Huge pages are off: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` makes steps "
        "faster.");
  if (machine["disk"]["free_bytes"].get<std::int64_t>() < (std::int64_t{1} << 30))
    lines.push_back("Less than 1 GiB is free in this folder: checkpoints need room.");
  return lines;
}

std::string gib(const Json& bytes) {
  const auto value = bytes.get<std::int64_t>();
  return value < 0 ? "none" : fmt::format("{:.1f} GiB", static_cast<double>(value) / (1 << 30));
}

void print_text(const Json& m) {
  fmt::print("{}\n", m["version"].get<std::string>());
  fmt::print("cpu      {}\n", m["cpu"].get<std::string>());
  fmt::print("isa      {} (available {}); AMX: {}; AVX-512 BF16: {}\n", m["isa"]["used"].get<std::string>(),
             m["isa"]["available"].get<std::string>(), m["isa"]["amx"].get<std::string>(),
             m["isa"]["avx512_bf16"].get<bool>() ? "yes" : "no");
  fmt::print("threads  {} usable of {}\n", m["threads"]["usable_cores"].get<int>(),
             m["threads"]["hardware"].get<int>());
  fmt::print("memory   {} free of {}; limit of the control group: {}; huge pages: {}\n",
             gib(m["memory"]["available_bytes"]), gib(m["memory"]["total_bytes"]),
             gib(m["memory"]["limit_bytes"]), m["memory"]["transparent_huge_pages"].get<std::string>());
  fmt::print("disk     {} free in this folder\n", gib(m["disk"]["free_bytes"]));
  fmt::print("device   {}\n", m["device"].get<std::string>());
  print_cuda(m["cuda"]);
  std::string libraries;
  for (const auto& [library, version] : m["libraries"].items())
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", library, version.get<std::string>());
  fmt::print("uses     {}\n", libraries);
  for (const std::string& line : advice(m)) fmt::print("advice   {}\n", line);
}

}  // namespace

Action doctor_command(Arguments& arguments) {
  const auto json = std::make_shared<bool>(false);
  arguments.flag("--json", *json, "Print JSON");
  return [json] {
    Json machine = examine();
    if (*json) {
      machine["advice"] = advice(machine);
      fmt::print("{}\n", machine.dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      print_text(machine);
    }
    return 0;
  };
}

}  // namespace tandem
