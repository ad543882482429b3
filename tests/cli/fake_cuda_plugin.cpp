// A plug-in without CUDA for cuda_plugin_test.py: host memory behind the interface, answers by the
// environment. FAKE_ABI: of another build. FAKE_WHY: no device, and why. FAKE_CUDNN: cuDNN's version.
// FAKE_TEXT: the description. FAKE_CREATE: why no device opens. FAKE_CORRUPT: copies flip a bit. FAKE_MARK: a
// file made when asked.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/backends/cuda/plugin_abi.h"
#include "core/backends/cuda/plugin_hash.h"

namespace {

using namespace tandem::cuda;

const char* variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void write(const char* from, char* text, std::int32_t size) {
  std::snprintf(text, static_cast<std::size_t>(size), "%s", from);
}

class HostDevice final : public DeviceApi {
 public:
  Status allocate(std::size_t bytes, void** pointer) override {
    *pointer = std::malloc(bytes);
    return *pointer == nullptr ? Status::kOutOfMemory : Status::kOk;
  }
  Status free(void* pointer) override {
    std::free(pointer);
    return Status::kOk;
  }
  Status copy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    if (std::getenv("FAKE_CORRUPT") != nullptr) static_cast<char*>(to)[bytes - 1] ^= 1;
    return Status::kOk;
  }
  Status copy_from_host(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::kOk;
  }
  Status copy_to_host(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::kOk;
  }
  Status zero(void* pointer, std::size_t bytes) override {
    std::memset(pointer, 0, bytes);
    return Status::kOk;
  }
  Status launch(std::int32_t, const Grid&, const void*, std::size_t) override {
    return Status::kNotSupported;
  }
  Status gemm(const GemmCall&) override { return Status::kNotSupported; }
  Status conv(const ConvCall&) override { return Status::kNotSupported; }
  Status synchronize() override { return Status::kOk; }
  const char* last_error() const override { return ""; }
};

}  // namespace

#ifdef FAKE_NEEDS
extern "C" int another_library();
int needed = another_library();
#endif

std::uint64_t tandem_cuda_abi() { return std::getenv("FAKE_ABI") == nullptr ? plugin_abi() : 1; }

std::int32_t tandem_cuda_probe(char* why, std::int32_t size) {
  if (const char* const mark = std::getenv("FAKE_MARK")) std::fclose(std::fopen(mark, "w"));
  write(variable("FAKE_WHY", ""), why, size);
  return *why == '\0' ? 1 : 0;
}

bool tandem_cuda_describe(std::int32_t, char* text, std::int32_t size) {
  std::snprintf(
      text, static_cast<std::size_t>(size),
      R"({"name": "Fake 1", "compute_capability": "9.0", "memory_bytes": 17179869184, )"
      R"("multiprocessors": 132, "driver": 13010, "runtime": 13000, "cudnn": %s, "cublaslt": 130100})",
      variable("FAKE_CUDNN", "91900"));
  if (const char* const instead = std::getenv("FAKE_TEXT")) write(instead, text, size);
  return true;
}

DeviceApi* tandem_cuda_create(std::int32_t, char* why, std::int32_t size) {
  write(variable("FAKE_CREATE", ""), why, size);
  return *why == '\0' ? new HostDevice : nullptr;
}

void tandem_cuda_destroy(DeviceApi* api) { delete api; }
