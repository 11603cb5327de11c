"""Modules, optimisers and schedules against PyTorch: the models of ported.py, and the values golden/make_nn.py wrote."""

import copy
import pickle
from pathlib import Path

import numpy as np
import ported
import pytest

import hearth as ht
from hearth import nn

GOLDEN = dict(np.load(Path(__file__).parent / "golden" / "nn.npz"))


def under(prefix):
    return {name[len(prefix) :]: value for name, value in GOLDEN.items() if name.startswith(prefix)}


def close(actual, expected, tolerance=2e-5):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance * 5, atol=tolerance)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_models_of_pytorch_users(name):
    model = ported.models(ht)[name]()
    model.load_state_dict(under(f"{name}/state/"))
    x, target = ht.tensor(GOLDEN[f"{name}/x"]), ht.tensor(GOLDEN[f"{name}/target"])
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    close(loss, GOLDEN[f"{name}/loss"])
    gradients = under(f"{name}/grad/")
    assert {key for key, _ in model.named_parameters()} == set(gradients)
    for key, parameter in model.named_parameters():
        close(parameter.grad, gradients[key])
    for key, buffer in model.named_buffers():
        close(buffer, GOLDEN[f"{name}/after/{key}"])
    model.eval()
    close(model(x), GOLDEN[f"{name}/eval"])
    close(ht.compile(model.forward)(x), GOLDEN[f"{name}/eval"])
    close(copy.deepcopy(model)(x), GOLDEN[f"{name}/eval"])


def test_pickled_modules():
    layers = [nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.GELU("tanh"), nn.Dropout(0.2), nn.Flatten(), nn.Linear(9, 2)]
    model = nn.Sequential(*layers).eval()
    x = ht.randn(2, 2, 5)
    twin = pickle.loads(pickle.dumps(model))
    close(twin(x), model(x).numpy())
    assert repr(twin) == repr(model) and not twin.training and all(p.requires_grad for p in twin.parameters())


@pytest.mark.parametrize("name", ["plain", "batch_first", "other_sizes"])
def test_multihead_attention(name):
    layer, options = ported.attention(ht)[name]
    layer.load_state_dict(under(f"attention/{name}/state/"))
    q, k, padding, mask = (ht.tensor(GOLDEN[f"attention/{part}"]) for part in ("q", "k", "padding", "mask"))
    if name == "batch_first":
        q, k = q.transpose(0, 1), k.transpose(0, 1)
    y, weights = layer(q, k, k, key_padding_mask=padding, attn_mask=mask, **options)
    close(y, GOLDEN[f"attention/{name}/y"])
    close(weights, GOLDEN[f"attention/{name}/weights"])


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("queries", [5, 3])
def test_causal_attention(queries, learned, zeros):
    """As with the mask: the last query sees all keys, each one before it one less, and those put at the end are open."""
    layer = nn.MultiheadAttention(16, 2, batch_first=True, add_bias_kv=learned, add_zero_attn=zeros)
    x = ht.randn(2, 5, 16)
    q, mask = x[:, 5 - queries :], ht.tensor(np.triu(np.ones((queries, 5), bool), 6 - queries))
    padding = ht.tensor(np.array([[False] * 5, [False, True, False, False, False]]))
    for options in ({}, {"key_padding_mask": padding}):
        y, weights = layer(q, x, x, is_causal=True, **options)
        expected, expected_weights = layer(q, x, x, attn_mask=mask, **options)
        close(y, expected.detach().numpy())
        close(weights, expected_weights.detach().numpy())
        assert (weights.detach().numpy()[:, :, :5][:, mask.numpy()] == 0).all()
        close(layer(q, x, x, is_causal=True, need_weights=False, **options)[0], expected.detach().numpy())


@pytest.mark.parametrize("kernel, dilation", [(3, 1), (4, 1), (2, 3), (4, 2), (1, 1)])
def test_padding_same(kernel, dilation):
    layer = nn.Conv1d(1, 1, kernel, padding="same", dilation=dilation, bias=False)
    x = np.random.randn(10).astype(np.float32)
    whole = dilation * (kernel - 1)
    padded = np.pad(x, (whole // 2, whole - whole // 2))  # as PyTorch: the odd one at the end
    expected = sum(w * padded[i * dilation :][:10] for i, w in enumerate(layer.weight.detach().numpy()[0, 0]))
    for own in (layer, pickle.loads(pickle.dumps(layer))):
        close(own(ht.tensor(x).reshape(1, 1, 10))[0, 0], expected)
    assert nn.Conv2d(2, 3, (kernel, 3), padding="same", dilation=dilation)(ht.ones(1, 2, 10, 9)).shape == (1, 3, 10, 9)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", list(ported.optimizers(ht)))
def test_optimizers(name, compiled):
    parameter = nn.Parameter(ht.tensor(GOLDEN["optim/start"]))
    target = ht.tensor(GOLDEN["optim/target"])
    optimizer = ported.optimizers(ht)[name]([parameter])

    def step(goal):
        optimizer.zero_grad()
        loss = ((parameter - goal) ** 2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = ht.compile(step) if compiled else step
    for _ in range(5):
        step(target)
    close(parameter, GOLDEN[f"optim/{name}"])


@pytest.mark.parametrize("name", list(ported.schedules(ht)))
def test_schedules(name):
    optimizer = ht.optim.SGD([nn.Parameter(ht.ones(2))], lr=0.5)
    scheduler = ported.schedules(ht)[name](optimizer)
    rates = []
    for _ in range(9):
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
    np.testing.assert_allclose(rates, GOLDEN[f"schedule/{name}"], rtol=1e-6)


def test_schedules_are_imported_as_from_pytorch():
    from hearth.optim.lr_scheduler import OneCycleLR, StepLR  # noqa: F401

    import hearth.optim.lr_scheduler as schedules

    assert schedules is ht.optim.lr_scheduler and StepLR is schedules.StepLR


def test_a_cycle_of_epochs():
    def rates(**length):
        optimizer = ht.optim.SGD([nn.Parameter(ht.ones(1))], lr=1)
        scheduler = ht.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, **length)
        result = []
        for _ in range(6):
            result += scheduler.get_last_lr()
            scheduler.step()
        return result

    assert rates(epochs=2, steps_per_epoch=3) == rates(total_steps=6)
    with pytest.raises(ht.ValueError, match="total_steps"):
        rates(epochs=2)


@pytest.mark.parametrize("name", list(ported.LOSSES))
def test_losses(name):
    loss = getattr(nn, name)(**ported.LOSSES[name])
    close(loss(ht.tensor(GOLDEN["function/x"]), ht.tensor(GOLDEN["function/y"])), GOLDEN[f"loss/{name}"])


def test_weights_of_binary_cross_entropy():
    F = nn.functional
    x, y = ht.randn(4, 3) * 3, (ht.rand(4, 3) > 0.5).float()
    weight, positive = ht.tensor([0.5, 1.0, 2.0]), ht.tensor([3.0, 1.0, 0.2])
    s, t, w, p = x.numpy().astype(np.float64), y.numpy(), weight.numpy(), positive.numpy()
    chance = 1 / (1 + np.exp(-s))
    of_elements = -(p * t * np.log(chance) + (1 - t) * np.log(1 - chance))
    close(F.binary_cross_entropy_with_logits(x, y, pos_weight=positive, reduction="none"), of_elements)
    close(nn.BCEWithLogitsLoss(pos_weight=positive)(x, y), of_elements.mean())
    close(nn.BCEWithLogitsLoss(weight, pos_weight=positive, reduction="sum")(x, y), (of_elements * w).sum(), 2e-4)
    plain = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    close(F.binary_cross_entropy_with_logits(x, y, weight), (plain.numpy() * w).mean())
    with pytest.raises(ht.ValueError):
        F.binary_cross_entropy_with_logits(x, y, weight, reduction="average")


def test_the_mean_of_divergences():
    """Of samples, where "mean" is that of elements."""
    p, q = (ht.softmax(ht.randn(5, 3), -1) for _ in range(2))
    a, b = p.numpy().astype(np.float64), q.numpy().astype(np.float64)
    expected = (a * np.log(a / b)).sum(1).mean()
    for target, log_target in ((p, False), (p.log(), True)):
        close(nn.functional.kl_div(q.log(), target, reduction="batchmean", log_target=log_target), expected)
        close(nn.KLDivLoss(reduction="batchmean", log_target=log_target)(q.log(), target), expected)


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_rms_norm(shape):
    F, axes = nn.functional, tuple(range(-len(shape), 0))
    x, weight = ht.randn(2, 3, 4) * 1e-3, ht.randn(*shape)
    a, w = x.numpy(), weight.numpy()

    def expected(eps):
        return a / np.sqrt((a.astype(np.float64) ** 2).mean(axes, keepdims=True) + eps) * w

    own = float(np.finfo(np.float32).eps)  # of such small numbers another would be seen
    layer = nn.RMSNorm(shape)
    layer.load_state_dict({"weight": weight})
    for y in (F.rms_norm(x, shape, weight), layer(x)):
        close(y, expected(own))
    close(F.rms_norm(x, shape, weight, 0.5), expected(0.5))
    assert F.rms_norm(x, 4).shape == x.shape
    assert F.rms_norm(x.half(), shape).dtype == ht.float16
    for wrong in ((5,), ()):
        with pytest.raises(ht.ShapeError):
            F.rms_norm(x, wrong)


def test_instance_norm():
    x = ht.randn(2, 3, 4, 4)
    a = x.numpy()
    expected = (a - a.mean((2, 3), keepdims=True)) / np.sqrt(a.var((2, 3), keepdims=True) + 1e-3)
    for layer in (nn.InstanceNorm2d(3, 1e-3), nn.InstanceNorm2d(3, 1e-3, 0.1), nn.InstanceNorm2d(3, 1e-3, affine=True)):
        close(layer(x), expected)
    assert not list(nn.InstanceNorm2d(3, 1e-3, 0.1).parameters())  # the third is the momentum
    close(nn.functional.instance_norm(x, None, None, ht.ones(3) * 2, eps=1e-3), 2 * expected)
    with pytest.raises(ht.ValueError, match="running"):
        nn.InstanceNorm2d(3, track_running_stats=True)


def test_resizing_by_a_factor():
    F, x = nn.functional, ht.randn(1, 2, 3, 4)
    assert F.interpolate(x, scale_factor=2).tolist() == F.interpolate(x, (6, 8)).tolist()
    assert F.interpolate(x, scale_factor=(1, 1.5), mode="bilinear").shape == (1, 2, 3, 6)
    assert nn.Upsample(scale_factor=2)(x).shape == (1, 2, 6, 8) and nn.Upsample(size=5)(x).shape == (1, 2, 5, 5)
    for wrong in ({}, {"size": 2, "scale_factor": 2}):
        with pytest.raises(ht.ValueError, match="scale_factor"):
            F.interpolate(x, **wrong)


def test_parts_are_replaced_and_found():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 4)))
    net[0], net[-1] = nn.Linear(2, 5), nn.Linear(5, 1)
    assert net(ht.ones(1, 2)).shape == (1, 1) and list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    parts = nn.ModuleList([nn.ReLU()])
    parts.insert(0, nn.Linear(2, 2))
    parts[1] = nn.Linear(2, 3)
    assert [name for name, _ in parts.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    deep = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    assert deep.get_submodule("0.0") is deep[0][0] and deep.get_submodule("") is deep
    with pytest.raises(AttributeError, match="0.7"):
        deep.get_submodule("0.7")
    assert deep.double()[0][0].weight.dtype == ht.float64
    assert (nn.Embedding(5, 3).num_embeddings, nn.Embedding(5, 3).embedding_dim) == (5, 3)


def test_arguments_that_change_nothing():
    F, q, k = nn.functional, ht.randn(1, 4, 3, 8), ht.randn(1, 2, 3, 8)
    assert F.scaled_dot_product_attention(q, k, k, enable_gqa=True).shape == q.shape
    nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1, enable_nested_tensor=False)
    assert nn.MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)(q).shape == (1, 4, 1, 4)
    for wrong in ({"dilation": 2}, {"ceil_mode": True}):
        with pytest.raises(ht.ValueError, match="MaxPool2d"):
            nn.MaxPool2d(2, **wrong)


def test_arguments_in_pytorchs_order():
    weight, scores, target = ht.tensor([0.2, 1.0, 3.0]), ht.randn(4, 3), ht.tensor([0, 1, 2, 0])
    for kind in (nn.CrossEntropyLoss, nn.NLLLoss):
        close(kind(weight, reduction="sum")(scores, target), kind(weight=weight, reduction="sum")(scores, target).numpy())
        for wrong in (lambda: kind(weight, weight), lambda: kind(weight, weight=weight)):
            with pytest.raises(TypeError):
                wrong()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)
    x, memory, mask = ht.randn(3, 2, 8), ht.randn(4, 2, 8), ht.triu(ht.ones(3, 3), 1) > 0
    close(decoder(x, memory, mask), decoder(x, memory, tgt_mask=mask).detach().numpy())
    decoder(x, memory).sum().backward()
    decoder.zero_grad(set_to_none=True)
    assert all(parameter.grad is None for parameter in decoder.parameters())


@pytest.mark.parametrize("name", list(ported.ACTIVATIONS))
def test_activations(name):
    module = getattr(nn, name)(*ported.ACTIVATIONS[name])
    close(module(ht.tensor(GOLDEN["function/x"])), GOLDEN[f"activation/{name}"])
    assert name in repr(module)


def test_activations_in_place():
    """The result is what counts, of functions as of modules."""
    x = ht.tensor([-1.0, 2.0])
    for name in ("relu", "relu6", "elu", "selu", "celu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu"):
        function = getattr(nn.functional, name)
        assert function(x, inplace=True).tolist() == function(x).tolist() and x.tolist() == [-1, 2]
        assert pickle.loads(pickle.dumps(function)) is function
    assert nn.functional.leaky_relu(x, 0.5, inplace=True).tolist() == [-0.5, 2]
    assert nn.functional.dropout(x, 0.5, training=False, inplace=True).tolist() == [-1, 2]


def test_softmax_in_another_type():
    x = ht.randn(2, 3).half()
    for name in ("softmax", "log_softmax"):
        y = getattr(nn.functional, name)(x, dim=-1, dtype=ht.float32)
        assert y.dtype == ht.float32 and y.tolist() == getattr(ht, name)(x.float(), -1).tolist()


def test_module_bookkeeping():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 3)
            self.second = self.first  # shared
            self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
            self.by_name = nn.ModuleDict({"a": nn.Identity()})
            self.register_buffer("steps", ht.zeros(1))
            self.register_buffer("scratch", ht.zeros(1), persistent=False)
            self.width = 3

        def forward(self, x):
            return self.blocks[1](self.blocks[0](self.second(x)))

    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"]
    assert "second.weight" in net.state_dict() and "scratch" not in net.state_dict() and "steps" in net.state_dict()
    assert net.parameter_count() == 9 + 24 and len(list(net.modules())) == 7
    assert not net.eval().blocks[0].training and net.train().blocks[0].training
    assert net(ht.ones(1, 2)).shape == (1, 3)
    net(ht.ones(1, 2)).sum().backward()
    net.zero_grad()
    assert net.first.weight.grad is None
    assert net.half().first.weight.dtype == ht.float16 and net.float().first.weight.requires_grad
    seen = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen[-1] == "Net"
    assert "Linear" in repr(net) and "<table>" in net._repr_html_()
    with pytest.raises(ht.ValueError, match="missing"):
        net.load_state_dict({})
    with pytest.raises(ht.ValueError, match="unexpected"):
        net.load_state_dict({**net.state_dict(), "more": ht.ones(1)})
    with pytest.raises(ht.ValueError, match="first.weight"):
        net.load_state_dict({**net.state_dict(), "first.weight": ht.ones(7, 7)})
    assert net.load_state_dict({}, strict=False)[0]
    with pytest.raises(AttributeError):
        net.nothing
    with pytest.raises(ht.DTypeError):
        net.first.weight = ht.ones(3, 2)
    with pytest.raises(NotImplementedError):
        nn.Module()(1)
    with pytest.raises(AttributeError, match="super"):
        type("Bad", (nn.Module,), {"__init__": lambda self: setattr(self, "layer", nn.Linear(1, 1))})()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: nn.Linear(2, 3)(ht.ones(5)), lambda: nn.Dropout(1.5), lambda: nn.MultiheadAttention(10, 3),
        lambda: nn.ConvTranspose1d(1, 1, 4, padding="same"),
        lambda: nn.Conv2d(3, 4, 3, groups=2), lambda: nn.BatchNorm2d(3)(ht.ones(2, 3)), lambda: nn.ReLU(5),
        lambda: nn.CrossEntropyLoss(smoothing=1), lambda: ht.optim.SGD([]), lambda: ht.optim.SGD([ht.ones(1)], speed=3),
        lambda: ht.optim.Adam([nn.Parameter(ht.ones(1))], lr=-1), lambda: ht.optim.SGD(["x"]),
        lambda: ht.optim.lr_scheduler.OneCycleLR(ht.optim.SGD([nn.Parameter(ht.ones(1))]), 1.0, 5, anneal_strategy="cosine"),
        lambda: ht.optim.lr_scheduler.ReduceLROnPlateau(ht.optim.SGD([nn.Parameter(ht.ones(1))]), "maximum"),
        lambda: nn.Sequential(nn.Linear(2, 2))(ht.ones(3)), lambda: nn.Embedding(3, 2)(ht.tensor([5])).eval(),
    ],
)
def test_wrong_use_raises(wrong):
    with pytest.raises((ht.Error, TypeError)):
        wrong()


def test_training_changes_with_mode():
    ht.manual_seed(1)
    x = ht.ones(1000)
    kept = nn.Dropout(0.4)(x)
    assert abs((kept != 0).float().mean().item() - 0.6) < 0.05 and abs(kept.max().item() - 1 / 0.6) < 1e-5
    normal = ht.randn(100000)
    alpha = nn.AlphaDropout(0.4)(normal)
    assert abs(alpha.mean().item()) < 0.03 and abs(alpha.std().item() - 1) < 0.03
    for kind in (nn.Dropout, nn.AlphaDropout):
        assert kind(0.4).eval()(x).tolist() == x.tolist()
    channels = nn.Dropout2d(0.5)(ht.ones(10, 10, 3, 3)).sum((2, 3))
    assert set(np.unique(channels.numpy())) == {0, 18}


def test_autocast_and_scaler():
    layer = nn.Linear(8, 8)
    x = ht.randn(4, 8)
    with ht.autocast():
        assert ht.autocast_dtype() == ht.bfloat16 and layer(x).dtype == ht.bfloat16
        assert nn.functional.softmax(layer(x)).dtype == ht.float32
        with ht.autocast(enabled=False):
            assert layer(x).dtype == ht.float32
    assert ht.low_precision(x).dtype == ht.full_precision(x).dtype == ht.float32 and ht.autocast_dtype() is None
    optimizer, scaler = ht.optim.SGD(layer.parameters(), lr=0.1), ht.optim.GradScaler(init_scale=8.0)
    before = layer.weight.numpy().copy()
    with ht.autocast(ht.float16):
        loss = nn.functional.mse_loss(layer(x), x)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.01)
    scaler.step(optimizer)
    scaler.update()
    assert norm.item() > 0.01 and scaler.get_scale() == 8.0
    assert 0 < np.abs(layer.weight.numpy() - before).sum() and np.linalg.norm(layer.weight.numpy() - before) <= 0.00101


def test_optimizer_state_and_groups():
    a, b = nn.Parameter(ht.ones(2)), nn.Parameter(ht.ones(2))
    optimizer = ht.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.0}], lr=0.5, momentum=0.9)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a.tolist() == [0.5, 0.5] and b.tolist() == [1, 1]
    optimizer.param_groups[1]["lr"] = 1.0
    group = optimizer.param_groups[0]
    assert group["momentum"] == 0.9 and group["weight_decay"] == 0 and "nesterov" in group and "speed" not in group
    with pytest.raises(KeyError):
        group["speed"]
    assert ht.optim.AdamW([a], fused=True, foreach=False).param_groups[0]["betas"] == (0.9, 0.999)
    state = optimizer.state_dict()
    other = ht.optim.SGD([{"params": [a]}, {"params": b}], lr=0.1, momentum=0.9)
    other.load_state_dict(state)
    assert other.param_groups[0]["lr"] == 0.5 and other.param_groups[1]["lr"] == 1.0
    average = ht.optim.EMA([a], 0.5)
    with ht.no_grad():
        a.assign(ht.zeros(2))
    average.update()
    average.apply()
    assert a.tolist() == [0.25, 0.25]
    average.restore()
    assert a.tolist() == [0, 0]


def test_initial_values():
    w = nn.Parameter(ht.zeros(200, 300))
    nn.init.kaiming_normal_(w, nonlinearity="relu")
    assert abs(w.std().item() - (2 / 300) ** 0.5) < 0.003 and w.requires_grad
    nn.init.xavier_uniform_(w)
    assert abs(w.abs().max().item() - (6 / 500) ** 0.5) < 0.003
    nn.init.orthogonal_(w)
    np.testing.assert_allclose((w @ w.T).detach().numpy(), np.eye(200), atol=1e-4)
    assert nn.init.constant_(w, 3)[0, 0].item() == 3 and nn.init.trunc_normal_(w).abs().max().item() <= 2
    layer = nn.Linear(100, 50)
    assert layer.weight.abs().max().item() <= 0.1 and layer.bias.abs().max().item() <= 0.1


def test_the_graph_does_not_grow():
    """Running statistics and weights changed by hand are computed with the next backward()."""
    layer, x = nn.BatchNorm1d(4), ht.randn(8, 4)
    for _ in range(3):
        layer(x).sum().backward()
        assert layer.running_mean.is_evaluated() and layer.num_batches_tracked.is_evaluated()
    weight = ht.ones(2, requires_grad=True)
    for i in range(3):
        loss = (weight**2).sum()
        loss.backward()
        assert loss.is_evaluated() and weight.grad.is_evaluated() and (i == 0 or weight.is_evaluated())
        with ht.no_grad():
            weight -= 0.25 * weight.grad
        weight.zero_grad()
    assert weight.tolist() == [0.125, 0.125]
