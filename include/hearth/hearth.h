// All of Hearth.
#pragma once

#include "hearth/config.h"
#include "hearth/data.h"
#include "hearth/device.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/io.h"
#include "hearth/nn.h"
#include "hearth/ops.h"
#include "hearth/optim.h"
#include "hearth/random.h"
#include "hearth/tensor.h"
#include "hearth/train.h"
