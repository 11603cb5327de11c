// hipGetProcAddress: entry points by name, as CUDA's driver interface gives them out.
#include <dlfcn.h>

#include <string>

#include "hip/api.h"

using namespace hipemu::hip;

HIP_API hipError_t hipGetProcAddress(const char* name, void** function, int version, uint64_t flags,
                                     hipDriverProcAddressQueryResult* status) {
  return api([&] {
    require(name && *name && function, hipErrorInvalidValue);
    *function = nullptr;
    // Two names mean different functions to programs of ROCm 5 and later ones.
    std::string symbol = name;
    if (version >= 600 && (symbol == "hipGetDeviceProperties" || symbol == "hipChooseDevice"))
      symbol += "R0600";
    Dl_info self{};
    void* library = nullptr;
    if (dladdr(reinterpret_cast<const void*>(&hipGetProcAddress), &self))
      library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    constexpr uint64_t per_thread_stream = 2;
    if (library && flags == per_thread_stream) *function = dlsym(library, (symbol + "_spt").c_str());
    if (library && !*function && symbol.starts_with("hip")) *function = dlsym(library, symbol.c_str());
    if (library) dlclose(library);
    if (status) *status = *function ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    require(*function || status, hipErrorNotFound);
    return *function ? hipSuccess : hipErrorInvalidValue;
  });
}
