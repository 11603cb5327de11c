"""Writes nn_optim.json: what PyTorch computes for the optimisers, schedules and modules that nn_test and optim_test check.

Run it with a Python that has torch and numpy; the result goes next to this file.
AdamATan2 and Lion are not in PyTorch: their published formulas are written out below, in float64.
"""

import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
torch.set_num_threads(1)


def array(x):
    """A tensor as {"shape", "data"}, with as many digits as float32 needs."""
    x = x.detach()
    kind = {torch.bool: "bool", torch.int64: "i64"}.get(x.dtype, "f32")
    flat = x.reshape(-1).tolist()
    if kind == "f32":
        flat = [float(np.format_float_scientific(np.float32(v), unique=True)) for v in flat]
    return {"shape": list(x.shape), "dtype": kind, "data": [int(v) if kind == "bool" else v for v in flat]}


# ---- optimisers: two parameters, six steps with given gradients; the learning rate is halved after the third.
STEPS = 6
START = [torch.randn(2, 3), torch.randn(4)]
GRADIENTS = [[torch.randn(2, 3), torch.randn(4)] for _ in range(STEPS)]


class AdamATan2(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.95), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["t"] += 1
                s["m"] = b1 * s["m"] + (1 - b1) * p.grad
                s["v"] = b2 * s["v"] + (1 - b2) * p.grad**2
                p *= 1 - lr * group["weight_decay"]
                p -= lr / (1 - b1 ** s["t"]) * torch.atan2(s["m"], s["v"].sqrt() / math.sqrt(1 - b2 ** s["t"]))


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["m"] = torch.zeros_like(p)
                p *= 1 - lr * group["weight_decay"]
                p -= lr * torch.sign(b1 * s["m"] + (1 - b1) * p.grad)
                s["m"] = b2 * s["m"] + (1 - b2) * p.grad


def optimizer_case(name, make, double=False):
    dtype = torch.float64 if double else torch.float32
    params = [p.clone().to(dtype).requires_grad_() for p in START]
    optimizer = make(params)
    values = []
    for i, gradients in enumerate(GRADIENTS):
        if i == 3:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        for p, g in zip(params, gradients):
            p.grad = g.to(dtype)
        optimizer.step()
        values.append([array(p.float()) for p in params])
    return {"name": name, "values": values}


O = torch.optim
OPTIMIZERS = [
    optimizer_case("sgd", lambda p: O.SGD(p, lr=0.1)),
    optimizer_case("sgd_momentum", lambda p: O.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05)),
    optimizer_case("sgd_dampening", lambda p: O.SGD(p, lr=0.1, momentum=0.9, dampening=0.3)),
    optimizer_case("sgd_nesterov", lambda p: O.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01)),
    optimizer_case("adam", lambda p: O.Adam(p, lr=0.02)),
    optimizer_case("adam_options", lambda p: O.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    optimizer_case("adam_amsgrad", lambda p: O.Adam(p, lr=0.02, betas=(0.9, 0.5), amsgrad=True)),
    optimizer_case("adamw", lambda p: O.AdamW(p, lr=0.02)),
    optimizer_case("adamw_options", lambda p: O.AdamW(p, lr=0.02, betas=(0.8, 0.5), weight_decay=0.5, amsgrad=True)),
    optimizer_case("rmsprop", lambda p: O.RMSprop(p, lr=0.02)),
    optimizer_case("rmsprop_centered", lambda p: O.RMSprop(p, lr=0.02, alpha=0.9, centered=True, weight_decay=0.1)),
    optimizer_case("rmsprop_momentum", lambda p: O.RMSprop(p, lr=0.02, momentum=0.9, eps=1e-4)),
    optimizer_case("rmsprop_all", lambda p: O.RMSprop(p, lr=0.02, alpha=0.8, momentum=0.5, centered=True)),
    optimizer_case("adagrad", lambda p: O.Adagrad(p, lr=0.1)),
    optimizer_case("adagrad_options", lambda p: O.Adagrad(
        p, lr=0.1, lr_decay=0.2, weight_decay=0.05, initial_accumulator_value=0.3, eps=1e-5)),
    optimizer_case("adam_atan2", lambda p: AdamATan2(p, lr=0.02), double=True),
    optimizer_case("adam_atan2_decay", lambda p: AdamATan2(p, lr=0.02, betas=(0.8, 0.9), weight_decay=1.0), double=True),
    optimizer_case("lion", lambda p: Lion(p, lr=0.02), double=True),
    optimizer_case("lion_decay", lambda p: Lion(p, lr=0.02, betas=(0.95, 0.98), weight_decay=0.5), double=True),
    optimizer_case("groups", lambda p: O.AdamW(
        [{"params": [p[0]], "lr": 0.05, "weight_decay": 0.3}, {"params": [p[1]], "lr": 0.01, "weight_decay": 0.0}])),
]


def clip_case(name, clip):
    params = [torch.zeros_like(g).requires_grad_() for g in GRADIENTS[0]]
    for p, g in zip(params, GRADIENTS[0]):
        p.grad = g.clone()
    total = clip(params)
    return {"name": name, "norm": float(total) if total is not None else 0.0, "gradients": [array(p.grad) for p in params]}


CLIPS = [
    clip_case("norm", lambda p: nn.utils.clip_grad_norm_(p, 1.5)),
    clip_case("norm_loose", lambda p: nn.utils.clip_grad_norm_(p, 100.0)),
    clip_case("norm_infinity", lambda p: nn.utils.clip_grad_norm_(p, 0.7, norm_type=math.inf)),
    clip_case("norm_one", lambda p: nn.utils.clip_grad_norm_(p, 2.0, norm_type=1.0)),
    clip_case("value", lambda p: nn.utils.clip_grad_value_(p, 0.4)),
]


# ---- schedules: the learning rate before each of 40 steps, from 0.1.
def schedule_case(name, make, metrics=None):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = make(optimizer)
    rates = []
    for i in range(len(metrics) if metrics else 40):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(*([metrics[i]] if metrics else []))
    return {"name": name, "rates": rates, "metrics": metrics or []}


S = O.lr_scheduler
METRICS = [1.0, 0.9, 0.91, 0.8, 0.85, 0.84, 0.83, 0.82, 0.81, 0.7999, 0.9, 0.9, 0.9, 0.5, 0.49999, 0.6, 0.6, 0.6, 0.6, 0.6]
SCHEDULES = [
    schedule_case("step", lambda o: S.StepLR(o, 7, gamma=0.5)),
    schedule_case("multi_step", lambda o: S.MultiStepLR(o, [5, 12, 30], gamma=0.3)),
    schedule_case("exponential", lambda o: S.ExponentialLR(o, 0.93)),
    schedule_case("linear", lambda o: S.LinearLR(o, start_factor=0.2, end_factor=0.9, total_iters=15)),
    schedule_case("polynomial", lambda o: S.PolynomialLR(o, total_iters=20, power=2.0)),
    schedule_case("cosine", lambda o: S.CosineAnnealingLR(o, 25, eta_min=0.001)),
    schedule_case("cosine_warm_restarts", lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.002)),
    schedule_case("cosine_warm_restarts_even", lambda o: S.CosineAnnealingWarmRestarts(o, 8)),
    schedule_case("one_cycle", lambda o: S.OneCycleLR(o, 0.5, total_steps=41, cycle_momentum=False)),
    schedule_case("one_cycle_linear", lambda o: S.OneCycleLR(
        o, 0.5, total_steps=41, pct_start=0.4, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0,
        cycle_momentum=False)),
    schedule_case("one_cycle_three_phase", lambda o: S.OneCycleLR(
        o, 0.5, total_steps=41, three_phase=True, cycle_momentum=False)),
    schedule_case("lambda", lambda o: S.LambdaLR(o, lambda t: 1.0 / (1 + t))),
    schedule_case("warmup", lambda o: S.SequentialLR(
        o, [S.LinearLR(o, start_factor=0.1, end_factor=1.0, total_iters=8), S.CosineAnnealingLR(o, 40)], milestones=[8])),
    schedule_case("plateau", lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=2), METRICS),
    schedule_case("plateau_options", lambda o: S.ReduceLROnPlateau(
        o, mode="max", factor=0.3, patience=1, threshold=0.01, threshold_mode="abs", cooldown=2, min_lr=0.004), METRICS),
]


# ---- modules: state, inputs, output, and the gradients of sum(output * seed).
def module_case(name, module, inputs, call=None, randomize=True, double_output=None):
    if randomize:  # defaults such as ones and zeros would hide mistakes
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(torch.randn_like(p) * 0.5)
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    state = {k: array(v) for k, v in module.state_dict().items()}
    output = call(module, *inputs) if call else module(*inputs)
    seed = torch.randn_like(output)
    (output * seed).sum().backward()
    return {
        "name": name,
        "state": state,
        "inputs": [array(x) for x in inputs],
        "seed": array(seed),
        "output": array(output),
        "input_gradients": [array(x.grad) if x.is_floating_point() else None for x in inputs],
        "parameter_gradients": {k: array(p.grad) for k, p in module.named_parameters()},
        "after": {k: array(v) for k, v in module.named_buffers()},
    }


def batch_norm_case(name, module, shape):
    """Two training batches; the golden values are the second one's."""
    first = torch.randn(shape) * 2 + 1
    case = None
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p))
    state = {k: array(v) for k, v in module.state_dict().items()}
    module(first)
    case = module_case(name, module, [torch.randn(shape)], randomize=False)
    case["first_input"], case["state"] = array(first), state
    module.eval()
    case["evaluated"] = array(module(first))
    return case


def rope(x, base=10000.0):
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, features, heads, key_heads=None, bias=True, causal=False, rotary=False, context=None):
        super().__init__()
        key_heads, size, context = key_heads or heads, features // heads, context or features
        self.heads, self.key_heads, self.causal, self.rotary = heads, key_heads, causal, rotary
        self.q_proj = nn.Linear(features, features, bias)
        self.k_proj = nn.Linear(context, key_heads * size, bias)
        self.v_proj = nn.Linear(context, key_heads * size, bias)
        self.out_proj = nn.Linear(features, features, bias)

    def forward(self, x, context=None):
        context = x if context is None else context
        split = lambda y, h: y.unflatten(-1, (h, -1)).transpose(1, 2)
        q = split(self.q_proj(x), self.heads)
        k, v = split(self.k_proj(context), self.key_heads), split(self.v_proj(context), self.key_heads)
        if self.rotary:
            q, k = rope(q), rope(k)
        repeat = self.heads // self.key_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, features, hidden, swiglu=False, bias=True):
        super().__init__()
        if swiglu:
            self.gate = nn.Linear(features, hidden, bias)
        self.up, self.down = nn.Linear(features, hidden, bias), nn.Linear(hidden, features, bias)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x) if hasattr(self, "gate") else F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, norm, attention, mlp):
        super().__init__()
        self.attention_norm, self.attention, self.mlp_norm, self.mlp = norm(), attention, norm(), mlp

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


def heads(module, q, k, v, **options):
    return module(q, k, v, need_weights=False, **options)[0]


R = torch.randn
SEQUENCES = [R(2, 3, 4), R(2, 5, 4), R(2, 5, 4)]
KEY_MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)  # true: may attend
PAIR_MASK = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 0, 1, 1]], dtype=torch.bool)
ADDED_MASK = R(3, 5)
CAUSAL = torch.ones(5, 5).tril().bool()
M = nn.MultiheadAttention
MODULES = [
    module_case("linear", nn.Linear(3, 4), [R(2, 5, 3)]),
    module_case("linear_plain", nn.Linear(3, 4, bias=False), [R(5, 3)]),
    module_case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), [R(2, 4, 9)]),
    module_case("conv2d", nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), [R(2, 2, 6, 5)]),
    module_case("conv2d_depthwise", nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), [R(1, 4, 5, 5)]),
    module_case("conv3d", nn.Conv3d(2, 2, 2, stride=2), [R(1, 2, 4, 5, 4)]),
    module_case("conv_transpose1d", nn.ConvTranspose1d(3, 2, 3, stride=2, padding=1, output_padding=1), [R(2, 3, 4)]),
    module_case("conv_transpose2d", nn.ConvTranspose2d(4, 2, 3, stride=2, groups=2), [R(1, 4, 3, 2)]),
    module_case("embedding", nn.Embedding(6, 3, padding_idx=2), [torch.tensor([[0, 2, 5], [5, 1, 2]])]),
    module_case("prelu", nn.PReLU(3), [R(2, 3, 4)]),
    module_case("layer_norm", nn.LayerNorm(5), [R(2, 3, 5)]),
    module_case("layer_norm_two_axes", nn.LayerNorm((3, 5), eps=1e-3), [R(2, 3, 5)]),
    module_case("rms_norm", nn.RMSNorm(5, eps=1e-5), [R(2, 3, 5)]),
    module_case("group_norm", nn.GroupNorm(2, 4), [R(2, 4, 3, 2)]),
    module_case("instance_norm", nn.InstanceNorm2d(3, affine=True), [R(2, 3, 3, 2)]),
    batch_norm_case("batch_norm1d", nn.BatchNorm1d(3), (4, 3)),
    batch_norm_case("batch_norm1d_length", nn.BatchNorm1d(3, momentum=0.3), (2, 3, 4)),
    batch_norm_case("batch_norm2d", nn.BatchNorm2d(3, eps=1e-3), (2, 3, 3, 2)),
    batch_norm_case("batch_norm2d_average", nn.BatchNorm2d(2, momentum=None, affine=False), (2, 2, 3, 2)),
    batch_norm_case("batch_norm2d_untracked", nn.BatchNorm2d(2, track_running_stats=False), (2, 2, 3, 2)),
    batch_norm_case("batch_norm3d", nn.BatchNorm3d(2), (2, 2, 2, 2, 3)),
    module_case("multihead", M(4, 2, batch_first=True), SEQUENCES, heads),
    module_case("multihead_plain", M(4, 2, bias=False, batch_first=True), SEQUENCES, heads),
    module_case("multihead_sizes", M(4, 2, kdim=3, vdim=5, batch_first=True), [R(2, 3, 4), R(2, 5, 3), R(2, 5, 5)], heads),
    module_case("multihead_causal", M(4, 2, batch_first=True), [R(2, 5, 4)],
                lambda m, x: heads(m, x, x, x, attn_mask=~CAUSAL)),
    module_case("multihead_masks", M(4, 2, batch_first=True), SEQUENCES,
                lambda m, *x: heads(m, *x, key_padding_mask=~KEY_MASK, attn_mask=~PAIR_MASK)),
    module_case("multihead_added_mask", M(4, 2, batch_first=True), SEQUENCES,
                lambda m, *x: heads(m, *x, attn_mask=ADDED_MASK)),
    module_case("multihead_extended", M(4, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True), SEQUENCES,
                lambda m, *x: heads(m, *x, key_padding_mask=~KEY_MASK, attn_mask=~PAIR_MASK)),
    module_case("multihead_weights", M(4, 2, batch_first=True), SEQUENCES[:2],
                lambda m, q, k: m(q, k, k, attn_mask=~PAIR_MASK, average_attn_weights=False)[1] + 0 * m.out_proj.weight.sum()
                + 0 * m.out_proj.bias.sum()),
    module_case("self_attention", Attention(8, 4, key_heads=2, causal=True, rotary=True), [R(2, 3, 8)]),
    module_case("cross_attention", Attention(4, 2, context=6, bias=False), [R(2, 3, 4), R(2, 5, 6)]),
    module_case("block", Block(lambda: nn.LayerNorm(4), Attention(4, 2), FeedForward(4, 16)), [R(2, 3, 4)]),
    module_case("block_llama", Block(
        lambda: nn.RMSNorm(8, eps=1e-6), Attention(8, 4, key_heads=2, bias=False, causal=True, rotary=True),
        FeedForward(8, 12, swiglu=True, bias=False)), [R(1, 3, 8)]),
]


# ---- losses
def loss_case(name, loss, inputs):
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    value = loss(*inputs)
    value.sum().backward()
    return {"name": name, "inputs": [array(x) for x in inputs], "output": array(value), "gradient": array(inputs[0].grad)}


X, Y = R(4, 3), R(4, 3)
CLASSES = torch.tensor([2, 0, -100, 1])
SIGNS = torch.tensor([1, -1, -1, 1])
LOSSES = [
    loss_case("mse", nn.MSELoss(), [X, Y]),
    loss_case("mse_none", nn.MSELoss(reduction="none"), [X, Y]),
    loss_case("l1", nn.L1Loss(reduction="sum"), [X, Y]),
    loss_case("smooth_l1", nn.SmoothL1Loss(beta=0.7), [X, Y]),
    loss_case("huber", nn.HuberLoss(delta=0.7), [X, Y]),
    loss_case("bce", nn.BCELoss(), [X.sigmoid(), Y.sigmoid()]),
    loss_case("bce_with_logits", nn.BCEWithLogitsLoss(reduction="sum"), [X, Y.sigmoid()]),
    loss_case("nll", nn.NLLLoss(), [X.log_softmax(1), CLASSES]),
    loss_case("cross_entropy", nn.CrossEntropyLoss(label_smoothing=0.1), [X, CLASSES]),
    loss_case("kl_div", nn.KLDivLoss(log_target=True), [X.log_softmax(1), Y.log_softmax(1)]),
    loss_case("cosine_embedding", nn.CosineEmbeddingLoss(margin=0.1), [X, Y, SIGNS]),
    loss_case("triplet_margin", nn.TripletMarginLoss(margin=0.5), [X, Y, R(4, 3)]),
]

golden = {
    "torch": torch.__version__.split("+")[0],
    "start": [array(p) for p in START],
    "gradients": [[array(g) for g in step] for step in GRADIENTS],
    "optimizers": OPTIMIZERS,
    "clips": CLIPS,
    "schedules": SCHEDULES,
    "modules": MODULES,
    "losses": LOSSES,
    "masks": {"key": array(KEY_MASK), "pair": array(PAIR_MASK), "added": array(ADDED_MASK)},
}
path = pathlib.Path(__file__).with_name("nn_optim.json")
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
print(path.name, path.stat().st_size, "bytes")
