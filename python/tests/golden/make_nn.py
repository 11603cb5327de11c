"""Writes model.pt, and nn.npz: what PyTorch computes with the models of ported.py. Run with an interpreter that has torch."""

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import ported

torch.manual_seed(0)
out = {}


def put(name, tensor):
    out[name] = tensor.detach().numpy().copy()


inputs = {"mlp": torch.randn(4, 12), "cnn": torch.randn(3, 2, 9, 9), "transformer": torch.randint(0, 11, (3, 6))}
for name, kind in ported.models(torch).items():
    model, x, target = kind(), inputs[name], torch.tensor([1, 0, 4, 2])[: len(inputs[name])]
    put(f"{name}/x", x)
    put(f"{name}/target", target)
    for key, value in model.state_dict().items():
        put(f"{name}/state/{key}", value)
    loss = torch.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    put(f"{name}/loss", loss)
    for key, value in model.named_parameters():
        put(f"{name}/grad/{key}", value.grad)
    for key, value in model.named_buffers():
        put(f"{name}/after/{key}", value)
    model.eval()
    put(f"{name}/eval", model(x))

q, k = torch.randn(5, 3, 16), torch.randn(7, 3, 16)
padding = torch.zeros(3, 7, dtype=torch.bool)
padding[1, 5:] = True
mask = torch.rand(5, 7) < 0.3
mask[:, 0] = False
for name, value in {"q": q, "k": k, "padding": padding, "mask": mask}.items():
    put(f"attention/{name}", value)
for name, (layer, options) in ported.attention(torch).items():
    for key, value in layer.state_dict().items():
        put(f"attention/{name}/state/{key}", value)
    first, second = (q.transpose(0, 1), k.transpose(0, 1)) if name == "batch_first" else (q, k)
    y, weights = layer(first, second, second, key_padding_mask=padding, attn_mask=mask, **options)
    put(f"attention/{name}/y", y)
    put(f"attention/{name}/weights", weights)

start, target = torch.randn(4, 3), torch.randn(4, 3)
put("optim/start", start)
put("optim/target", target)
for name, make in ported.optimizers(torch).items():
    parameter = torch.nn.Parameter(start.clone())
    optimizer = make([parameter])
    for _ in range(5):
        optimizer.zero_grad()
        ((parameter - target) ** 2).sum().backward()
        optimizer.step()
    put(f"optim/{name}", parameter)
for name, make in ported.schedules(torch).items():
    optimizer = torch.optim.SGD([torch.nn.Parameter(start.clone())], lr=0.5)
    scheduler = make(optimizer)
    rates = []
    for _ in range(9):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    out[f"schedule/{name}"] = np.array(rates)

x, y = torch.randn(4, 6), torch.rand(4, 6)
put("function/x", x)
put("function/y", y)
for name, options in ported.LOSSES.items():
    put(f"loss/{name}", getattr(torch.nn, name)(**options)(x, y))
for name, options in ported.ACTIVATIONS.items():
    put(f"activation/{name}", getattr(torch.nn, name)(*options)(x))
torch.save({"w": torch.arange(6.0).reshape(2, 3).t(), "inner": {"b": torch.ones(2, dtype=torch.bfloat16)}}, Path(__file__).with_name("model.pt"))
np.savez_compressed(Path(__file__).with_name("nn.npz"), **out)
