// `hearth train lm` and `hearth train tokenizer`.
#pragma once

#include "cli/commands.h"

namespace hearth::cli {

void add_train_lm(CLI::App& train, Action& action);
void add_train_tokenizer(CLI::App& train, Action& action);

}  // namespace hearth::cli
