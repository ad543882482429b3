// A libcuda.so.1 for cuda_plugin_test.py that knows CUDA $FAKE_DRIVER (13000: 13.0) and fails to start with
// error $FAKE_INIT. It has no device: what the CUDA runtime makes of such a driver is under test.
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

int number(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

int get_version(int* version) {
  *version = number("FAKE_DRIVER");
  return 0;
}
int initialise(unsigned) { return number("FAKE_INIT"); }
int not_supported() { return 801; }

}  // namespace

extern "C" int cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t, int* status) {
  const std::string_view name = symbol;
  if (status != nullptr) *status = 0;
  *function = name == "cuDriverGetVersion" ? reinterpret_cast<void*>(get_version)
              : name == "cuInit"           ? reinterpret_cast<void*>(initialise)
              : name == "cuGetProcAddress" ? reinterpret_cast<void*>(cuGetProcAddress_v2)
                                           : reinterpret_cast<void*>(not_supported);
  return 0;
}
