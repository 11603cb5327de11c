"""Module: the base of layers and models; Parameter; containers."""

from collections import OrderedDict

from .. import _core
from .._core import Tensor


class Parameter(Tensor):
    """A tensor that is a parameter of the module it becomes an attribute of."""

    def __init__(self, data, requires_grad=True):
        super().__init__(data)
        if requires_grad:
            self.requires_grad_()


class Module:
    """The base of layers and models.

    Attributes that are Parameters, modules or buffers (register_buffer) are found by parameters(), state_dict(), to() and
    the like, under their names.
    """

    def __init__(self):
        # Not through __setattr__, which looks for them.
        object.__setattr__(self, "_parameters", OrderedDict())
        object.__setattr__(self, "_buffers", OrderedDict())
        object.__setattr__(self, "_modules", OrderedDict())
        object.__setattr__(self, "_transient", set())  # names of buffers that state_dict() leaves out
        object.__setattr__(self, "training", True)

    # ---- attributes

    def __setattr__(self, name, value):
        own = self.__dict__
        if "_modules" not in own:
            raise AttributeError(f"call super().__init__() before setting {name!r}")
        if isinstance(value, Parameter):
            kind = "_parameters"
        elif isinstance(value, Module):
            kind = "_modules"
        elif name in own["_buffers"] and (value is None or isinstance(value, Tensor)):
            kind = "_buffers"
        elif name in own["_parameters"] and value is None:
            kind = "_parameters"
        else:
            kind = None
            if name in own["_parameters"]:
                raise _core.DTypeError(
                    f"[Module] {name!r} is a parameter; it takes a Parameter or None, not {type(value).__name__}"
                )
        for other in ("_parameters", "_buffers", "_modules"):
            if other != kind:
                own[other].pop(name, None)
        if kind is None:
            object.__setattr__(self, name, value)
        else:
            own.pop(name, None)
            own[kind][name] = value

    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __delattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    @staticmethod
    def _check_name(name):
        if not name or "." in name:
            raise _core.ValueError(f"[Module] {name!r} is no name: it is empty or has a '.'")

    def register_parameter(self, name, parameter):
        self._check_name(name)
        self._parameters[name] = parameter

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor that belongs to the module's state and is not trained; None for one that is not there."""
        self._check_name(name)
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def add_module(self, name, module):
        self._check_name(name)
        self._modules[name] = module

    register_module = add_module

    # ---- calling

    def forward(self, *inputs, **options):
        raise NotImplementedError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *inputs, **options):
        return self.forward(*inputs, **options)

    # ---- what there is

    def children(self):
        return (module for _, module in self.named_children())

    def named_children(self):
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_modules(self, prefix="", _seen=None):
        seen = _seen if _seen is not None else set()
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def _named(self, kind, prefix="", shared=False):
        seen = set()
        for path, module in self.named_modules(prefix) if not shared else self._all_paths(prefix):
            for name, tensor in module.__dict__[kind].items():
                if tensor is None or (not shared and id(tensor) in seen):
                    continue
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def _all_paths(self, prefix=""):
        """Every module under every path to it: what is shared is saved under all its names."""
        yield prefix, self
        for name, module in self.named_children():
            yield from module._all_paths(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, prefix="", recurse=True):
        if recurse:
            return self._named("_parameters", prefix)
        return ((name, value) for name, value in self._parameters.items() if value is not None)

    def parameters(self, recurse=True):
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def get_submodule(self, target):
        """The module under a name as named_modules() has it."""
        module = self
        for name in target.split(".") if target else ():
            module = module._modules[name] if name in module._modules else None
            if module is None:
                raise AttributeError(f"{type(self).__name__!r} has no module {target!r}")
        return module

    def named_buffers(self, prefix=""):
        return self._named("_buffers", prefix)

    def buffers(self):
        return (buffer for _, buffer in self.named_buffers())

    def parameter_count(self):
        return sum(parameter.numel() for parameter in self.parameters())

    # ---- state

    def state_dict(self):
        """Parameters and buffers by name. The tensors are the variables themselves."""
        state = OrderedDict()
        for path, module in self._all_paths():
            for kind in ("_parameters", "_buffers"):
                for name, tensor in module.__dict__[kind].items():
                    if tensor is not None and not (kind == "_buffers" and name in module._transient):
                        state[f"{path}.{name}" if path else name] = tensor
        return state

    def load_state_dict(self, state, strict=True):
        """Assigns each tensor to the variable of its name. Returns (missing, unexpected) names.

        Raises ValueError naming all that is missing or unexpected (when strict) or of another shape; then nothing has
        been assigned.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        wrong = [
            f"{name}: {tuple(state[name].shape)} for {own[name].shape}"
            for name in own
            if name in state and tuple(state[name].shape) != own[name].shape
        ]
        problems = wrong + ([f"missing {missing}"] if strict and missing else [])
        problems += [f"unexpected {unexpected}"] if strict and unexpected else []
        if problems:
            raise _core.ValueError("[load_state_dict] " + "; ".join(problems))
        from .._convert import as_tensor

        with _core._NoGrad():
            for name, variable in own.items():
                if name in state:
                    variable.assign(as_tensor(state[name], dtype=variable.dtype, device=variable.device))
        _core.eval(list(own.values()))
        return missing, unexpected

    # ---- changing all of it

    def train(self, mode=True):
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, whatever `set_to_none` says."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def requires_grad_(self, value=True):
        for parameter in self.parameters():
            parameter.requires_grad_(value)
        return self

    def apply(self, function):
        """Calls `function` on every module below this one, then on this one."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def to(self, *targets, device=None, dtype=None, non_blocking=False):
        """Moves to a device, converts what is floating to a dtype, or both; non_blocking changes nothing."""
        dtypes, places = [], []
        for target in (*targets, device, dtype):
            if target is not None:
                (places if _is_device(target) else dtypes).append(target)
        for module in self.modules():
            for kind in ("_parameters", "_buffers"):
                for tensor in module.__dict__[kind].values():
                    if tensor is None:
                        continue
                    moved = tensor.detach()
                    if dtypes and moved.dtype.name in ("float16", "bfloat16", "float32", "float64"):
                        moved = moved.to(*dtypes)
                    if places:
                        moved = moved.to(*places)
                    if moved.dtype == tensor.dtype and moved.device == tensor.device:
                        continue
                    # The same Python object goes on: optimisers made before must be made again.
                    requires_grad = tensor.requires_grad
                    tensor._replace(moved.eval())
                    tensor.requires_grad_(requires_grad)
        return self

    def cpu(self):
        return self.to("cpu")

    def cuda(self):
        return self.to("cuda")

    def rocm(self):
        return self.to("rocm")

    def half(self):
        return self.to(_core.float16)

    def bfloat16(self):
        return self.to(_core.bfloat16)

    def float(self):
        return self.to(_core.float32)

    def double(self):
        return self.to(_core.float64)

    # ---- for people

    def extra_repr(self):
        return ""

    def __repr__(self):
        lines = []
        for name, module in self.named_children():
            lines.append(f"  ({name}): " + repr(module).replace("\n", "\n  "))
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ")" if not lines else head + "\n" + "\n".join(lines) + "\n)"


def _is_device(target):
    if not isinstance(target, str):
        return isinstance(target, (_core.Device, _core._DeviceScope))
    try:
        _core.dtype_size(target)
    except Exception:
        return True
    return False


class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            modules = modules[0]
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            for module in modules:
                self.append(module)

    def append(self, module):
        self.add_module(str(len(self._modules)), module)
        return self

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        modules = list(self._modules.values())
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]

    def __setitem__(self, index, module):
        self._modules[list(self._modules)[index]] = module


class ModuleList(Module):
    """A list of modules; it has no forward."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        modules = list(self._modules.values())
        return ModuleList(modules[index]) if isinstance(index, slice) else modules[index]

    def __setitem__(self, index, module):
        self._modules[list(self._modules)[index]] = module

    def insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)


class ModuleDict(Module):
    """Modules by name; it has no forward."""

    def __init__(self, modules=None):
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
        self.register_parameter(
            str(len(self._parameters)), parameter if isinstance(parameter, Parameter) else Parameter(parameter)
        )
        return self

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __getitem__(self, index):
        return list(self._parameters.values())[index]
