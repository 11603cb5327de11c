"""Saving and loading: safetensors, NumPy's npz and npy; loading also GGUF, IDX and what torch.save writes.

Saving replaces a file in one step: on any failure the old file is still there, whole. Loaded tensors are in host memory.
"""

import json
from pathlib import Path

from . import _core
from ._convert import as_tensor
from ._core import _io


def save(data, path, metadata=None, compress=False):
    """Writes tensors to a .safetensors, .npz or .npy file.

    `data` is a dictionary of tensors; for .safetensors it may be nested and hold numbers, strings, lists and None, as
    checkpoints do; for .npy, one tensor. `metadata`: texts by name, .safetensors only.
    """
    kind = Path(path).suffix
    if kind == ".npy":
        return _io.save_npy(str(path), as_tensor(data))
    if not isinstance(data, dict):
        raise _core.ValueError(f"[save] a dictionary of tensors is needed, not {type(data).__name__}")
    if kind == ".npz":
        return _io.save_npz(str(path), {name: as_tensor(value) for name, value in data.items()}, compress)
    if kind != ".safetensors":
        raise _core.ValueError(f"[save] the name must end in .safetensors, .npz or .npy, not {kind!r}")
    tensors = {}
    structure = _describe(data, "", tensors)
    texts = dict(metadata or {})
    if any(part is not None for part in structure.values()):
        texts["hearth.structure"] = json.dumps(structure)
    _io.save_safetensors(str(path), tensors, texts)


def load(path, return_metadata=False):
    """What save() wrote, or any .safetensors, .npz, .npy, .gguf, .idx or (of torch.save) .pt, .pth or .bin file: a
    dictionary of tensors, or one tensor. Nothing in a file of torch.save is run."""
    kind = Path(path).suffix
    if kind == ".safetensors":
        tensors, metadata = _io.load_safetensors(str(path))
        structure = metadata.pop("hearth.structure", None)
        data = tensors if structure is None else _rebuild(_structure(structure, path), "", tensors)
        return (data, metadata) if return_metadata else data
    loaders = {".npz": _io.load_npz, ".npy": _io.load_npy, ".gguf": _io.load_gguf, ".idx": _io.load_idx}
    loaders.update(dict.fromkeys((".pt", ".pth", ".bin"), _io.load_torch))
    if kind not in loaders:
        raise _core.ValueError(f"[load] the name must end in .safetensors, {', '.join(loaders)}, not {kind!r}")
    return loaders[kind](str(path))


# A structure says what a value is: None a tensor (under its path), {"d": {name: structure}} a dictionary, {"l": [...]} a
# list, {"t": [...]} a tuple, {"v": value} a value of JSON. The outermost dictionary is written without its {"d": }.


def _describe(data, prefix, tensors):
    structure = {}
    for name, value in data.items():
        if not isinstance(name, str):
            raise _core.ValueError(f"[save] names are strings, not {name!r}")
        structure[name] = _describe_value(value, prefix + name, tensors)
    return structure


def _describe_value(value, path, tensors):
    if isinstance(value, dict):
        return {"d": _describe(value, path + ".", tensors)}
    if isinstance(value, (list, tuple)):
        parts = [_describe_value(part, f"{path}.{i}", tensors) for i, part in enumerate(value)]
        return {"l" if isinstance(value, list) else "t": parts}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"v": value}
    if path in tensors:
        raise _core.ValueError(f"[save] two tensors would be named {path!r}")
    tensors[path] = as_tensor(value)
    return None


def _structure(text, path):
    try:
        structure = json.loads(text)
        assert isinstance(structure, dict)
        return structure
    except (ValueError, AssertionError, RecursionError):
        raise _core.FormatError(f"[load] {path}: the structure in the metadata is not one") from None


def _rebuild(structure, prefix, tensors):
    return {name: _rebuild_value(part, prefix + name, tensors) for name, part in structure.items()}


def _rebuild_value(part, path, tensors):
    if part is None:
        if path not in tensors:
            raise _core.FormatError(f"[load] the structure names a tensor {path!r} that is not there")
        return tensors[path]
    if not isinstance(part, dict) or len(part) != 1:
        raise _core.FormatError(f"[load] the structure of {path!r} is not one")
    (kind, content), = part.items()
    if kind == "d" and isinstance(content, dict):
        return _rebuild(content, path + ".", tensors)
    if kind in ("l", "t") and isinstance(content, list):
        values = [_rebuild_value(value, f"{path}.{i}", tensors) for i, value in enumerate(content)]
        return values if kind == "l" else tuple(values)
    if kind == "v":
        return content
    raise _core.FormatError(f"[load] the structure of {path!r} is not one")
