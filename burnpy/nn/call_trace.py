"""A trace of one run of a model: the calls of its modules, their output shapes and their FLOPs.

A copy of the model is run once, in eval mode, on a `Profiled` device around the plain backend beneath the model's own:
no graph is recorded, and the model is unchanged. The classes of the copy are subclasses whose ``forward`` records its
calls, so that both ``layer(x)`` and ``layer.forward(x)`` are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import new_class
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.decorators.profile import Profile
from burnpy.backend.decorators.profiled import Profiled
from burnpy.backend.devices import innermost
from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, DeviceError, a
from burnpy.nn.module_tree import Rebuild, joined, new_module
from burnpy.tensor.levels import transfer
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe

if TYPE_CHECKING:
    from burnpy.nn.module_base import ModuleBase

Input: TypeAlias = TensorBase[Any] | Sequence[int]
"""An input of a model: a tensor, or the shape of a tensor of zeros."""


class Calls:
    """A record of all calls of the modules of a model in one run."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[Any]] = {}
        self.spans: dict[str, list[tuple[int, int]]] = {}  # [first, end) operation; without recursive calls
        self.before: list[int] = [0]  # FLOPs before each operation
        self.profile: Profile
        self.active: set[str] = set()
        self.explained: BaseException | None = None

    def run(self, model: ModuleBase[Any], input: Input | Sequence[Input]) -> int:
        """Run a copy of the model and return the FLOPs of the run."""
        inputs = _inputs(input)
        device: Any = Profiled(innermost(_device(model, inputs)))
        copy = _Watched(self, device)(model)
        float_dtypes = [variable.dtype for variable in copy._variables().values() if variable.kind == "float"]
        dtype = float_dtypes[0] if float_dtypes else float32
        tensors = [
            transfer(x.detach() if isinstance(x, Tensor) else x, device)
            if isinstance(x, TensorBase)
            else Tensor.zeros(tuple(x), dtype=dtype, device=device)
            for x in inputs
        ]
        with Profiled.record(lines=False) as self.profile:
            copy(*tensors)
        self.before = [*accumulate((cost.flops for *_, cost in self.profile.timeline()), initial=0)]
        return self.before[-1]

    def call(self, path: str, module: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call ``forward`` of a module, record the call, and return the result."""
        begin, outermost = len(self.profile), path not in self.active
        self.active.add(path)
        try:
            out = forward(module, *args, **kwargs)
        except Exception as error:  # any error of the user's forward(); it is raised again
            if self.explained is not error:  # a nested module has added the note already
                self.explained = error
                where = f"{path}, {a(type(module).__name__)}," if path else f"the {type(module).__name__}"
                shapes = ", ".join(shapes_text(_shapes(x)) for x in (*args, *kwargs.values()))
                error.add_note(f"raised in summary(), where {where} was called with {shapes or 'nothing'}")
            raise
        finally:
            if outermost:
                self.active.discard(path)
        self.outputs.setdefault(path, []).append(_shapes(out))
        if outermost:
            self.spans.setdefault(path, []).append((begin, len(self.profile)))
        return out

    def of(self, path: str) -> tuple[Any, int, int | None]:
        """Return the output shape of the last call of the module at ``path``, the number of calls, and their FLOPs."""
        outputs = self.outputs.get(path)
        if outputs is None:
            return None, 0, None
        flops = sum(self.before[stop] - self.before[start] for start, stop in self.spans[path])
        return outputs[-1], len(outputs), flops


class _Watched(Rebuild):
    """Builds a copy of a model on another device, in eval mode, whose modules record their calls."""

    def __init__(self, calls: Calls, device: Any) -> None:
        super().__init__(lambda path, variable: variable._on(device))
        self.calls = calls
        self.paths: dict[int, str] = {}  # of the modules of the copy, by id
        self.classes: dict[type[Any], type[Any]] = {}

    def _module(self, module: ModuleBase[Any], path: str) -> Any:
        fields = vars(module)
        parts = {name: self(fields[name], joined(path, name)) for name in module._parts}
        copy = new_module(self._class(type(module)), {**fields, **parts}, module._parts, False)
        self.paths[id(copy)] = path
        return copy

    def _class(self, cls: type[Any]) -> type[Any]:
        """Return a subclass of ``cls`` whose ``forward`` records its calls; cached."""
        watched = self.classes.get(cls)
        if watched is None:

            def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
                path = self.paths.get(id(module))
                if path is None:  # a copy created during the run, such as by replace()
                    return cls.forward(module, *args, **kwargs)
                return self.calls.call(path, module, cls.forward, args, kwargs)

            names = {"forward": forward, "__slots__": (), "__module__": cls.__module__}
            watched = self.classes[cls] = new_class(cls.__name__, (cls,), exec_body=lambda space: space.update(names))
        return watched


def _inputs(argument: Any) -> list[Any]:
    """Return the input as a list of tensors and shapes."""
    several = isinstance(argument, (tuple, list)) and not _is_shape(argument)
    inputs = [*argument] if several else [argument]
    for x in inputs:
        if not isinstance(x, TensorBase) and not _is_shape(x):
            hint = "; make a tensor of it: Tensor.from_data(values)" if hasattr(x, "__array__") else ""
            raise ArgumentError(
                f"summary() takes as input a tensor, a shape, or a tuple of these, got {describe(x)}{hint}"
            )
    return inputs


def _is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and all(isinstance(size, int) for size in x)


def _device(model: ModuleBase[Any], inputs: Sequence[Any]) -> Any:
    tensors = [x.device for x in inputs if isinstance(x, TensorBase)]
    devices = [variable.device for variable in [*model._variables().values()][:1]] + tensors
    if not devices:
        raise ArgumentError(
            f"summary() got a shape, but this {type(model).__name__} has no parameters, and so no device; pass a tensor"
        )
    for other in devices[1:]:
        if innermost(other) is not innermost(devices[0]):
            raise DeviceError(
                f"summary() got a tensor on {other} for a model on {devices[0]}; move one: x.to_device(device)"
            )
    return devices[0]


def _shapes(value: Any) -> Any:
    """Return the shape of a tensor; lists and dicts of shapes for containers; the class name of anything else."""
    if isinstance(value, TensorBase):
        return value.shape
    if isinstance(value, Mapping):
        return {key: _shapes(part) for key, part in value.items()}
    return [_shapes(part) for part in value] if isinstance(value, (tuple, list)) else type(value).__name__


def shapes_text(shapes: Any) -> str:
    """Return shapes as text, for display.

    >>> shapes_text([(2, 3), {"cell": (4,)}])
    '[(2, 3), {cell: (4,)}]'
    """
    if isinstance(shapes, dict):
        return f"{{{', '.join(f'{key}: {shapes_text(part)}' for key, part in shapes.items())}}}"
    if isinstance(shapes, list):
        return f"[{', '.join(map(shapes_text, shapes))}]"
    return str(shapes)
