// Calls from a kernel to the host: the buffer of packets through which device code asks for printf and the
// like.
#pragma once

#include <cstdint>

namespace hipemu {

// Address of the buffer that every kernel with a hidden_hostcall_buffer argument gets.
uint64_t host_call_buffer();

}  // namespace hipemu
