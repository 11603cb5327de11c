// Writes what a kernel did where HIPEMU_STATS says.
#pragma once

#include "exec/launch.h"
#include "exec/statistics.h"

namespace hipemu {

bool statistics_enabled();

// Appends one launch. Text, or one JSON object per line when HIPEMU_STATS_FORMAT is "json".
void report_statistics(const Launch& launch, int wave_size, const Statistics& statistics);

}  // namespace hipemu
