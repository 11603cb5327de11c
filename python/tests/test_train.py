"""Data sets, the loader, the training loop."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import hearth as ht
from hearth import nn
from hearth.data import DataLoader, TensorDataset


class Squares(ht.data.Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return np.full(3, index, np.float32), index * index


@pytest.mark.parametrize("workers", [0, 3])
def test_python_data_sets(workers):
    loader = DataLoader(Squares(), batch_size=4, num_workers=workers, persistent_workers=workers > 0)
    assert len(loader) == 3
    for _ in range(2):
        batches = list(loader)
        assert [x.shape for x, _ in batches] == [(4, 3), (4, 3), (2, 3)]
        assert sum((y.tolist() for _, y in batches), []) == [i * i for i in range(10)]
        assert batches[0][1].dtype == ht.int64


def test_values_without_tuples_and_collate():
    class Plain(Squares):
        def __getitem__(self, index):
            return ht.full((2,), index)

    assert [batch.tolist() for batch in DataLoader(Plain(3), batch_size=2)] == [[[0, 0], [1, 1]], [[2, 2]]]
    loader = DataLoader(Squares(4), batch_size=2, collate_fn=lambda samples: [ht.stack([x for x, _ in samples]).sum(0)])
    assert [batch[0].tolist() for batch in loader] == [[1, 1, 1], [5, 5, 5]]


def test_order_and_resumption():
    data = TensorDataset(ht.arange(20))
    shuffled = DataLoader(data, batch_size=6, shuffle=True, seed=3)
    first = [batch[0].tolist() for batch in shuffled]
    assert sorted(sum(first, [])) == list(range(20)) and sum(first, []) != list(range(20))
    assert [b[0].tolist() for b in shuffled] != first  # another epoch
    assert [b[0].tolist() for b in DataLoader(data, batch_size=6, shuffle=True, seed=3)] == first
    assert len(DataLoader(data, batch_size=6, drop_last=True)) == 3
    loader = DataLoader(data, batch_size=6, shuffle=True, seed=3)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    other = DataLoader(data, batch_size=6, shuffle=True, seed=3)
    other.load_state_dict(state)
    assert [b[0].tolist() for b in other] == first[1:]
    with pytest.raises(ht.ValueError):
        DataLoader(data, batch_size=3).load_state_dict(state)


def test_data_sets_made_of_others():
    one, two = TensorDataset(ht.arange(4), ht.arange(4) * 2), TensorDataset(ht.arange(3) + 10, ht.arange(3))
    both = ht.data.ConcatDataset([one, two])
    assert len(both) == 7 and [field.item() for field in both[5]] == [11, 1]
    assert len(ht.data.Subset(both, [6, 0])) == 2 and ht.data.Subset(Squares(), [3])[0][1].item() == 9
    parts = ht.data.random_split(both, [5, 2], seed=1)
    assert sorted(parts[0].indices + parts[1].indices) == list(range(7))
    shares = ht.data.random_split(both, [0.5, 0.25, 0.25], seed=1)
    assert [len(part) for part in shares] == [4, 2, 1]  # 3, 1, 1, and one more each as far as there are
    assert sorted(sum((part.indices for part in shares), [])) == list(range(7))
    for wrong in ([0.5, 0.25], [1.5, -0.5], [float("nan"), 0.5]):
        with pytest.raises(ht.ValueError, match="shares"):
            ht.data.random_split(both, wrong)
    images = TensorDataset(ht.full((5, 1, 6, 6), 255, "uint8"), ht.arange(5))
    mapped = ht.data.MapDataset(images, [ht.data.to_float(), ht.data.normalize([0.5], [0.25]), ht.data.random_crop(4, 4)])
    x, _ = next(iter(DataLoader(mapped, batch_size=5)))
    assert x.shape == (5, 1, 4, 4) and x.tolist()[0][0][0][0] == 2.0
    sampler = ht.data.WeightedRandomSampler([0, 1, 0, 1], 50)
    drawn = [batch[0].item() for batch in DataLoader(one, sampler=sampler)]
    assert set(drawn) == {1, 3} and len(drawn) == 50


def test_iterable_data_sets():
    class Count(ht.data.IterableDataset):
        def __iter__(self):
            return ((float(i), np.arange(i, i + 2)) for i in range(5))

    loader = DataLoader(Count(), batch_size=2)
    for _ in range(2):
        assert [(x.tolist(), y.tolist()) for x, y in loader][-1] == ([4.0], [[4, 5]])
    chained = DataLoader(ht.data.ChainDataset([Count(), Count()]), batch_size=4, drop_last=True)
    assert [x.shape for x, _ in chained] == [(4,), (4,)]
    for wrong in (lambda: len(loader), lambda: DataLoader(Count(), shuffle=True), lambda: list(DataLoader(ht.data.IterableDataset()))):
        with pytest.raises((TypeError, ht.ValueError, NotImplementedError)):
            wrong()


@pytest.mark.parametrize("workers", [0, 2])
def test_data_sets_that_raise(workers):
    class Broken(Squares):
        def __getitem__(self, index):
            if index == 5:
                raise KeyError("sample 5 is missing")
            return super().__getitem__(index)

    with pytest.raises(KeyError, match="sample 5"):
        list(DataLoader(Broken(), batch_size=2, num_workers=workers))

    class Ragged(Squares):
        def __getitem__(self, index):
            return np.zeros(index + 1, np.float32)

    with pytest.raises(ht.ShapeError):
        list(DataLoader(Ragged(), batch_size=2, num_workers=workers))
    with pytest.raises(TypeError):
        list(DataLoader([{"a": 1}], num_workers=workers))
    with pytest.raises((TypeError, ht.Error)):
        list(DataLoader(5))


def test_loaders_end_while_workers_wait():
    for _ in range(5):
        iterator = iter(DataLoader(Squares(100), batch_size=1, num_workers=3))
        next(iterator)
        del iterator


def problem(seed=0):
    ht.manual_seed(seed)
    x = ht.randn(64, 4)
    y = (x.sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = ht.optim.AdamW(model.parameters(), lr=0.02)
    return model, optimizer, TensorDataset(x, y)


def test_trainer(tmp_path):
    model, optimizer, data = problem()
    events, parameters = [], {}  # parameters: at each evaluation

    class Watch(ht.train.Callback):
        def on_begin(self, trainer):
            events.append("begin")

        def on_step(self, trainer, step, loss):
            assert trainer.step == step and loss > 0
            events.append(step)

        def on_record(self, trainer, record):
            events.append(record["evaluation"]["accuracy"])
            parameters[record["step"]] = [p.numpy().copy() for p in model.parameters()]

        def on_checkpoint(self, trainer, path):
            events.append(str(path))

        def on_end(self, trainer, result):
            events.append(result["ending"])

    trainer = ht.train.Trainer(
        model, optimizer, nn.functional.cross_entropy, epochs=6, clip_norm=5.0, metrics=[ht.metrics.Accuracy()],
        callbacks=[Watch()], checkpoint_folder=tmp_path / "run", progress=False,
    )
    result = trainer.fit(DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=64))
    assert result["ending"] == "finished" and result["steps"] == 24 and result["best"] > 0.9
    assert events[0] == "begin" and events[1] == 1 and events[-1] == "finished"
    assert trainer.evaluate(DataLoader(data, batch_size=64))["accuracy"] > 0.9 and model.training
    best = ht.train.best_checkpoint(tmp_path / "run")
    other = problem(9)[0]
    ht.train.load_model(other, best)
    for loaded, kept in zip(other.parameters(), parameters[result["best_step"]], strict=True):
        np.testing.assert_array_equal(loaded.numpy(), kept)


def test_a_resumed_run_is_the_same(tmp_path):
    def fit(folder, epochs, resume):
        model, optimizer, data = problem()
        trainer = ht.train.Trainer(
            model, optimizer, nn.functional.cross_entropy, epochs=epochs, checkpoint_folder=folder, resume=resume,
            progress=False, compile=True,
        )
        result = trainer.fit(DataLoader(data, batch_size=16, shuffle=True))
        return model, result

    whole, _ = fit(tmp_path / "whole", 4, "never")
    fit(tmp_path / "parts", 2, "never")
    resumed, result = fit(tmp_path / "parts", 4, "automatic")
    assert result["resumed_from"] == 8
    for name, tensor in whole.state_dict().items():
        np.testing.assert_array_equal(resumed.state_dict()[name].numpy(), tensor.numpy())


def test_own_forward_metric_and_stop():
    model, optimizer, data = problem()

    class Largest:
        name, larger_is_better = "largest", True

        def reset(self):
            self.seen = 0.0

        def update(self, output, target):
            self.seen = max(self.seen, output.max().item())

        def value(self):
            return self.seen

    class Stop:
        def on_step(self, trainer, step, loss):
            if step == 3:
                trainer.stop()

    def forward(model, batch):
        output = model(batch[0])
        return nn.functional.cross_entropy(output, batch[1]), output, batch[1]

    trainer = ht.train.Trainer(model, optimizer, forward=forward, steps=100, metrics=[Largest()], callbacks=[Stop()], progress=False)
    result = trainer.fit(DataLoader(data, batch_size=16), DataLoader(data, batch_size=16))
    assert result["ending"] == "stopped" and result["steps"] == 3


@pytest.mark.parametrize("compiled", [False, True])
def test_modules_keep_their_modes(compiled):
    model, optimizer, data = problem()
    frozen = model[1].eval()
    mean = frozen.running_mean.tolist()
    during, after = [], []

    def forward(model, batch):
        during.append([module.training for module in model])
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    class Watch(ht.train.Callback):
        def on_record(self, trainer, record):
            after.append([module.training for module in model])

    trainer = ht.train.Trainer(
        model, optimizer, forward=forward, epochs=2, callbacks=[Watch()], progress=False, compile=compiled
    )
    trainer.fit(DataLoader(data, batch_size=16), DataLoader(data, batch_size=64))
    own = [True, False, True, True, True]
    assert after == [own, own] and [module.training for module in model] == own and model.training
    assert frozen.running_mean.tolist() == mean
    assert own in during and [False] * 5 in during and len(during) == (2 if compiled else 10)
    model.eval()
    trainer.evaluate(DataLoader(data, batch_size=64))
    assert not model.training


def test_what_goes_wrong_in_training():
    model, optimizer, data = problem()

    class Fresh:  # a loader at its beginning, whatever happened before
        @property
        def _native(self):
            return DataLoader(data, batch_size=16)._native

    loader = Fresh()

    class Raises:
        def on_step(self, trainer, step, loss):
            raise LookupError("from the callback")

    def trainer(loss=nn.functional.cross_entropy, **options):
        return ht.train.Trainer(model, optimizer, loss, **{"epochs": 1, "progress": False, **options})

    with pytest.raises(LookupError, match="from the callback"):
        trainer(callbacks=[Raises()]).fit(loader)
    with pytest.raises(ZeroDivisionError):
        trainer(lambda y, t: 1 / 0).fit(loader)
    with pytest.raises(ht.NonFiniteLoss):
        trainer(lambda y, t: y.sum() * float("nan")).fit(loader)
    with pytest.raises(ht.Error):
        trainer(lambda y, t: y).fit(loader)
    with pytest.raises((TypeError, RuntimeError)):
        trainer(lambda y, t: "text").fit(loader)
    for wrong in (dict(speed=3), dict(precision="float8"), dict(epochs=0)):
        with pytest.raises((TypeError, ht.ValueError)):
            trainer(**wrong).fit(loader)
    with pytest.raises(ht.ValueError, match="loader each"):
        trainer().fit(loader, loader)
    model, optimizer, data = problem()  # what failed has left NaN in the weights
    assert trainer().fit(DataLoader(data, batch_size=16))["ending"] == "finished"


def test_ctrl_c_in_training():
    model, optimizer, data = problem()

    class Slow:
        def on_step(self, trainer, step, loss):
            time.sleep(0.01)

    def interrupt():
        time.sleep(0.4)
        os.kill(os.getpid(), signal.SIGINT)

    trainer = ht.train.Trainer(model, optimizer, nn.functional.cross_entropy, epochs=10000, callbacks=[Slow()], progress=False)
    threading.Thread(target=interrupt, daemon=True).start()
    assert trainer.fit(DataLoader(data, batch_size=16))["ending"] == "interrupted"


def test_metrics():
    scores, targets = ht.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), ht.tensor([1, 0, 0, 0])
    for metric, value in [
        (ht.metrics.Accuracy(), 0.75), (ht.metrics.TopK(1), 0.75), (ht.metrics.Precision(2, "binary"), 0.5),
        (ht.metrics.Recall(2, "binary"), 1.0), (ht.metrics.F1(2, "binary"), 2 / 3),
    ]:
        metric.update(scores, targets)
        assert metric.value() == pytest.approx(value) and metric.larger_is_better
        metric.reset()
    matrix = ht.metrics.ConfusionMatrix(2)
    matrix.update(scores, targets)
    assert matrix.value().tolist() == [[2, 1], [0, 1]]
    error = ht.metrics.RootMeanSquaredError()
    error.update(ht.tensor([1.0, 2.0]), ht.tensor([1.0, 4.0]))
    assert error.value() == pytest.approx(2**0.5) and not error.larger_is_better


def test_mnist_files(shared):
    folder = next((path for path in shared.rglob("*") if path.is_dir() and ht.data.has_mnist(str(path))), None)
    if folder is None:
        pytest.skip("MNIST is not there")
    data = ht.data.mnist(str(folder), True)
    assert len(data) == 60000
    x, y = next(iter(DataLoader(ht.data.MapDataset(data, ht.data.to_float()), batch_size=8)))
    assert x.shape == (8, 1, 28, 28) and x.dtype == ht.float32 and y.tolist() == [5, 0, 4, 1, 9, 2, 1, 3]


def test_progress_bar(capsys):
    assert list(ht.progress([1, 2, 3], "work")) == [1, 2, 3]
    assert capsys.readouterr().err == ""  # not a terminal
    from hearth._progress import Bar

    bar = Bar("work", 4)
    bar.update(2, "half")
    assert "2/4" in repr(bar) and "<progress" in bar._repr_html_()
