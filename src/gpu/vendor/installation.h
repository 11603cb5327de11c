// Where an installation of ROCm or CUDA keeps the libraries that belong to its driver.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu/driver/driver.h"

namespace hearth::gpu {

// Folders with libraries of the ROCm installation that the driver came from: two must not meet in a process.
std::vector<std::filesystem::path> rocm_folders_of(const Driver& driver);
// Folders in which a library for CUDA may be; `package` is where the wheels of pip keep it ("cublas").
std::vector<std::filesystem::path> cuda_folders_of(const Driver& driver, const std::string& package);

// Whether there is a file of kernels for an architecture in `folder`, "TensileLibrary_..._gfx1100.dat", or a
// folder of them.
bool has_kernels_for(const std::filesystem::path& folder, const std::string& architecture);
// That folder of the rocBLAS in `folder`. Without a file there, its first product ends the process.
std::filesystem::path rocblas_kernels(const std::filesystem::path& folder);

}  // namespace hearth::gpu
