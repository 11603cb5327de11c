"""Data sets, samplers, transforms, and the loader that makes batches of them."""

import math
import threading
from itertools import chain, islice

from . import _core
from ._convert import as_tensor
from ._core import _data
from ._core._data import (
    BatchSampler,
    CsvDataset,
    DistributedSampler,
    IdxDataset,
    RandomSampler,
    RecordDataset,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
    center_crop,
    gaussian_noise,
    has_mnist,
    mnist,
    normalize,
    random_crop,
    random_erase,
    random_horizontal_flip,
    random_vertical_flip,
    to_float,
)


class Dataset:
    """Samples by index: subclasses define __len__ and __getitem__, which returns a value or a tuple of them."""

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class IterableDataset:
    """Samples one after another: subclasses define __iter__. A loader of one has no length, order or state."""

    def __iter__(self):
        raise NotImplementedError


class ChainDataset(IterableDataset):
    """Iterable data sets one after another."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        return chain(*self.datasets)


def _stacked(samples):
    """The fields of several samples along a new first axis."""
    if not isinstance(samples[0], (tuple, list)):
        return _core.stack([as_tensor(sample) for sample in samples])
    return [_core.stack([as_tensor(field) for field in fields]) for fields in zip(*samples, strict=True)]


def _native(dataset):
    return dataset if isinstance(dataset, _data.CoreDataset) else _data.PythonDataset(dataset)


def Subset(dataset, indices):
    """The given samples of another data set."""
    return _data.Subset(_native(dataset), list(indices))


def ConcatDataset(datasets):
    """One data set after another."""
    return _data.ConcatDataset([_native(dataset) for dataset in datasets])


def MapDataset(dataset, transforms, field=0):
    """Another data set with transforms (normalize(...), random_crop(...), ...) applied to one field."""
    transforms = transforms if isinstance(transforms, (list, tuple)) else [transforms]
    return _data.MapDataset(_native(dataset), list(transforms), field)


def random_split(dataset, lengths, seed=0):
    """Disjoint random subsets of the given sizes, or shares that add up to 1."""
    lengths = list(lengths)
    if any(isinstance(length, float) for length in lengths):
        if not math.isclose(sum(lengths), 1) or min(lengths) < 0:
            raise _core.ValueError(f"[random_split] shares add up to 1, not {lengths}")
        lengths = [math.floor(len(dataset) * share) for share in lengths]
        for i in range(len(dataset) - sum(lengths)):  # what is left goes to the first, one each
            lengths[i % len(lengths)] += 1
    return _data.random_split(_native(dataset), lengths, seed)


class DataLoader:
    """Batches of a data set, epoch after epoch.

        for x, y in DataLoader(dataset, batch_size=32, shuffle=True): ...

    `num_workers` threads prepare batches ahead; they stay, whatever `persistent_workers` says. The order follows from `seed`
    alone. With `device`, batches are copied there while it computes; they go through pinned memory, whatever `pin_memory`
    says. state_dict() holds the place in the data: a loop after load_state_dict() goes on from there.
    """

    def __init__(self, dataset, batch_size=1, shuffle=False, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, drop_last=False, prefetch_factor=2, seed=0, device=None, pin_memory=False,
                 persistent_workers=False):
        self.dataset, self.batch_size = dataset, batch_size
        self._lock = threading.Lock()
        self._drop_last, self._device, self._collate = drop_last, device, collate_fn or _stacked
        if isinstance(dataset, IterableDataset):
            if shuffle or sampler or batch_sampler or num_workers:
                raise _core.ValueError("[DataLoader] an iterable data set has no order to choose, and one reader")
            self._native = None
            return
        self._native = _data.CoreLoader(
            _native(dataset), batch_size, shuffle, drop_last, num_workers, prefetch_factor, seed, device, sampler,
            batch_sampler, collate_fn,
        )
        self._resumed = False

    def __len__(self):
        if self._native is None:
            raise TypeError("a loader of an iterable data set has no length")
        return len(self._native)

    def _batches(self):
        """Of an iterable data set."""
        samples = iter(self.dataset)
        while part := list(islice(samples, self.batch_size)):
            if len(part) < self.batch_size and self._drop_last:
                return
            batch = self._collate(part)
            if self._device is not None:
                batch = batch.to(self._device) if isinstance(batch, _core.Tensor) else [x.to(self._device) for x in batch]
            yield batch

    def __iter__(self):
        if self._native is None:
            yield from self._batches()
            return
        # A loop that was left early is begun again, unless a state says where to go on.
        if self._native.position and not self._resumed:
            self._native.restart()
        self._resumed = False
        while True:
            with self._lock:
                batch = self._native.next()
            if batch is None:
                return
            yield batch

    @property
    def epoch(self):
        return self._native.epoch

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state):
        self._native.load_state_dict(state)
        self._resumed = True
