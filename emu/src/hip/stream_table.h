// The handles of streams and events.
#pragma once

#include "hip/handle_table.h"
#include "hip/hip_types.h"

namespace hipemu::hip {

class Stream;
struct Event;

HandleTable<hipStream_t, Stream>& stream_table();
HandleTable<hipEvent_t, Event>& event_table();

}  // namespace hipemu::hip
