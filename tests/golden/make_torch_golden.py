#!/usr/bin/env python3
"""Writes io/checkpoint.pt: a dictionary of tensors as torch.save writes them. Needs torch."""
import pathlib

import torch

torch.manual_seed(1)
base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
module = torch.nn.Linear(3, 2)
with torch.no_grad():
    module.weight.copy_(torch.arange(6).reshape(2, 3) / 4)
    module.bias.zero_()
state = module.state_dict()  # an OrderedDict with attributes
state["parameter"] = torch.nn.Parameter(torch.tensor([1.5, -2.0]))
state["transposed"] = base.t()
state["column"] = base[:, 2]
state["bf16"] = torch.tensor([1.0, -0.5, 3.140625], dtype=torch.bfloat16)
state["f16"] = torch.tensor([[0.25]], dtype=torch.float16)
state["f64"] = torch.tensor(2.5, dtype=torch.float64)
state["i64"] = torch.tensor([1 << 40, -7])
state["i32"] = torch.tensor([-3], dtype=torch.int32)
state["bool"] = torch.tensor([True, False])
state["empty"] = torch.zeros(0, 5)
state["nested"] = {"tensor": torch.tensor([9.0]), "number": 3, "list": [1, 2.5, None]}
state["text"] = "left out"
folder = pathlib.Path(__file__).parent / "io"
torch.save(state, folder / "checkpoint.pt")
