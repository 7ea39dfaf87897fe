"""Recordings of a model for export: one, and others with inputs of other sizes, from which numbers are generalized."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.decorators.recorded import Decomposes, RecordedDevices
from burnpy.backend.errors import ArgumentError, BurnpyError, ExportError, KindError, RecordingError
from burnpy.backend.functions import signature
from burnpy.backend.plans.recording import Recording, refs_in
from burnpy.func.compiling.compilation import Compiled
from burnpy.func.compiling.recorded_calls import Call, OutputLeaf, record_call
from burnpy.func.pytree import flatten, paths
from burnpy.interop.onnx.operators.whole_nodes import Counts, counts
from burnpy.interop.onnx.sizes import Symbols
from burnpy.nn.module import Module
from burnpy.tensor.tensor_base import TensorBase


class Inputs(NamedTuple):
    """The inputs of a model: their tensors, by the names that they have in the file."""

    call: Call
    named: Mapping[str, int]  #: the number of each input among the leaves of the call
    parameters: Mapping[int, str]  #: the path of each tensor of the model, by its number among the leaves
    buffers: Sequence[str]  #: the paths of those that are no parameters
    function: Callable[..., Any]  #: computes the results from the arguments of the call


class Trace(NamedTuple):
    """A recording of a model, with its outputs."""

    recording: Recording
    inputs: Sequence[int]  #: the numbers of the leaves that are inputs of the recording, in their order
    outputs: dict[str, Any]  #: the results by their names; arrays where they depend on no input
    device: Any  #: the plain device
    sizes: Mapping[str, int]  #: those that vary, by their symbols


def inputs_of(model: Any, inputs: tuple[Any, ...]) -> Inputs:
    """Return the inputs of a call of a model."""
    model = uncompiled(model)
    held = {"": model} if isinstance(model, Module) else captured(model)
    call = Call((held, *inputs), {})
    parameters, buffers = _parameters(held, call)
    given: Any = inputs
    if not isinstance(given, tuple):
        raise KindError(f"export() takes a tuple of inputs, got {type(given).__name__}; write (x,) for one input")
    method = getattr(type(model), "forward", None)
    names = [*signature(method).parameters][1:] if method is not None else [*signature(model).parameters]
    names = [*getattr(model, "input_names", names)]
    start = call.structure.children[0].children[0].size
    named: dict[str, int] = {}
    for k, value in enumerate(inputs):
        leaves, structure = flatten(value, whole=True)
        name = names[k] if k < len(names) else f"input_{k}"
        for path, leaf in zip(paths(structure, name), leaves, strict=True):
            if not isinstance(leaf, TensorBase):
                if leaf is not None:
                    raise KindError(f"export() takes tensors as inputs, and {path} is {leaf!r:.60}")
            else:
                named[path] = start
            start += 1
    taken = named.keys() & parameters.values()
    parameters = {k: f"captured.{path}" if path in taken else path for k, path in parameters.items()}

    def function(held: dict[str, Any], *args: Any) -> Any:
        return (held[""] if isinstance(model, Module) else rebuilt(model, held))(*args)

    return Inputs(call, named, parameters, buffers, function)


def _parameters(held: Mapping[str, Any], call: Call) -> tuple[dict[int, str], list[str]]:
    """Return the path of each tensor of modules and trees, by its number among the leaves, and those of buffers."""
    known: dict[int, str] = {}
    buffers: list[str] = []
    for name, tree in held.items():
        if isinstance(tree, Module):
            prefix = f"{name}." if name else ""
            variables: list[tuple[str, Any]] = [*tree.named_buffers().items(), *tree.named_params().items()]
            known.update({id(variable.value): f"{prefix}{path}" for path, variable in variables})
            buffers += [f"{prefix}{path}" for path in tree.named_buffers()]
        else:
            leaves, structure = flatten(tree, whole=True)
            places = {id(leaf): path for leaf, path in zip(leaves, paths(structure, name), strict=True)}
            known = {**places, **known}
            buffers += places.values()
    found = {
        k: known[id(leaf)] for k, leaf in enumerate(call.leaves) if id(leaf) in known and isinstance(leaf, TensorBase)
    }
    for k in found:
        if call.leaves[k].device.differentiates:
            raise ArgumentError(
                f"export() got a model on {call.leaves[k].device}, which records gradients; pass model.valid()"
            )
    return found, buffers


_COUNTS = 8
"""The number of recordings of a model with sizes that depend on values."""
_MOST = 32
"""The largest number of sizes next to each other that a model is recorded with."""
_APART = 8
"""The number of sizes whose quotients are next to each other."""
_FEWEST, _NEAR = 4, 17
"""The number of sizes that a model is recorded with at least, and how far from the example others are searched."""


class _Recordings:
    """The recordings of a model that is called with other sizes of its inputs.

    Sizes are chosen so that numbers which are equal in all recordings are equal for all sizes. If strides and poolings
    divide a size by up to ``n``, then each of ``n`` sizes next to each other is rounded otherwise, and quotients of
    sizes that are ``n`` apart are next to each other. One more size is twice as large, where slices end.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        inputs: Inputs,
        symbols: Symbols,
        given: Mapping[str, int],
        decomposes: Decomposes,
    ) -> None:
        self._model, self._inputs, self._symbols, self._decomposes = model, inputs, symbols, decomposes
        self.base = {name: max(size, 2) for name, size in given.items()}  # a size of 1 broadcasts
        self.traces: list[Trace] = []
        self._failed: Exception | None = None
        if not self.record(self.base):
            raise self._error(of_example=self.base == given)

    def record(self, sizes: Mapping[str, int]) -> bool:
        """Record the model with other sizes, if it takes them."""
        try:
            leaves = _resized(self._inputs, self._symbols, sizes)
            number = len(self.traces)
            self.traces.append(_trace(self._model, self._inputs, leaves, self._decomposes, sizes, number)[0])
        except (RecordingError, ExportError):
            raise
        except Exception as error:  # also those of the model's own checks
            self._failed = self._failed or error
            return False
        return True

    def _takes(self, name: str, size: int) -> bool:
        """Record the model with another size of one symbol."""
        return self.record({**self.base, name: size})

    def _error(self, of_example: bool = False) -> Exception:
        """Return the model's error if it refuses the example, else one that says why it was called with other sizes."""
        if of_example and self._failed is not None:
            return self._failed
        error = ExportError(
            f"export() calls the model with other sizes of {', '.join(sorted(self.base))}, which failed: {self._failed}"
        )
        error.__cause__ = self._failed
        return error

    def alone(self, name: str, least: int) -> list[int]:
        """Record the model with another size that it takes, a small one, and twice it; return those to try besides.

        Args:
            name: of the size.
            least: a number by which the model may divide it.
        """
        size = self.base[name]
        steps = [step for d in range(1, size + 1) if size % d == 0 for step in (d, -d) if size + step > 1]
        step = next((step for step in steps if self._takes(name, size + step)), None)
        if step is None:
            raise self._error()
        unit = abs(step)
        small = next((n for n in range(size % unit or unit, size, unit) if n > 1 and self._takes(name, n)), size)
        if not self._takes(name, 2 * size + unit):
            self._takes(name, size - (size - small) // (2 * unit) * unit)
        divided = math.ceil(self._divided(name) / unit)
        places = [*range(1, max(min(divided, _MOST), least) + 3)]
        if divided > _MOST:  # some between
            places = [*places[::2], *[divided * k // _MOST + k % 2 for k in range(2, _MOST)]]
        down = step < 0 or 2 * places[-1] * unit <= size
        sizes = [size - k * unit if down else size + k * unit for k in places]
        if divided > 1:
            smaller = max((size - small) // unit - places[-1] - 2 * divided, 0) if down else 0
            below = _APART if step < 0 else min(_APART - 1, max(size // (unit * divided) - 2, 0))
            sizes = [n - smaller * unit for n in sizes]  # which are recorded in less time
            sizes += [size + unit * divided * (k - below) for k in range(_APART + 1)]
        return [n for n in dict.fromkeys(sizes) if n > 1] or [size]

    def complete(self, name: str) -> None:
        """Record the model with more sizes of one symbol, if it took few: in them, a rounded size may be constant."""
        near = (n for k in range(1, _NEAR) for n in (self.base[name] - k, self.base[name] + k) if n > 1)
        while len(taken := {trace.sizes[name] for trace in self.traces}) < _FEWEST:
            size = next((n for n in near if n not in taken), None)
            if size is None:
                return
            self._takes(name, size)

    def _divided(self, name: str) -> float:
        """Return the largest number by which the model divides a size, given the last recording, of another size."""
        first, other = self.traces[0], self.traces[-1]
        columns = [[ref for node in t.recording.nodes for ref in refs_in(node.results)] for t in (first, other)]
        ratios = [1.0]
        for x, y in zip(*columns, strict=False):
            pairs = zip(x.shape, y.shape, strict=False)
            ratios += [self.base[name] / min(m, n) for m, n in pairs if m != n and m and n]
        return max(ratios)


def traces(
    model: Callable[..., Any],
    inputs: Inputs,
    symbols: Symbols,
    given: Mapping[str, int],
    decomposes: Decomposes,
    least: int = 1,
) -> list[Trace]:
    """Record a model with its inputs and, if dimensions vary, with inputs of other sizes.

    Args:
        model: the model.
        inputs: its inputs.
        symbols: the dimensions that vary.
        given: the numbers of the symbols in the inputs.
        decomposes: returns what is recorded in place of an operation, such as its default.
        least: a number by which the model may divide sizes, although no result shows it.
    """
    if not symbols:
        first, varies = _trace(model, inputs, inputs.call.leaves, decomposes, {})
        runs = _COUNTS if varies else 1
        return [first, *[_trace(model, inputs, inputs.call.leaves, decomposes, {}, k)[0] for k in range(1, runs)]]
    made = _Recordings(model, inputs, symbols, given, decomposes)
    others = {name: made.alone(name, least) for name in made.base}
    count = max(map(len, others.values()))
    mixed = [_mixed(sizes, place, count) for place, sizes in enumerate(others.values())]
    rows = [dict(zip(others, row, strict=True)) for row in zip(*mixed, strict=True)]
    if sum([made.record(row) for row in rows]) * 2 < count:  # sizes that the model takes together are few
        for name, sizes in others.items():
            for size in sizes:
                made.record({**made.base, name: size})
    for name in others:
        made.complete(name)
    return made.traces


def _mixed(sizes: Sequence[int], place: int, count: int) -> list[int]:
    """Return so many of the sizes of a symbol, all of them, in an order that no symbol at another place has.

    >>> _mixed([2, 3, 4], 0, 4), _mixed([2, 3, 4], 1, 4)
    ([2, 3, 4, 2], [3, 2, 4, 3])
    """
    n = len(sizes)
    steps = [step for step in range(1, 6 * n) if math.gcd(step, n) == 1]
    return [sizes[(k * steps[3 * place % len(steps)] + place) % n] for k in range(count)]


def _resized(inputs: Inputs, symbols: Symbols, sizes: Mapping[str, int]) -> list[Any]:
    """Return the leaves of a call with inputs of other sizes, whose elements are those of the example, repeated."""
    leaves = list(inputs.call.leaves)
    for (number, dim), symbol in symbols.items():
        leaf = leaves[number]
        size = leaf.shape[dim]
        array = np.take(leaf.to_numpy(), np.arange(symbol.size(sizes)) % size, dim)
        leaves[number] = type(leaf).from_data(array, device=leaf.device)
    return leaves


def _trace(
    model: Any, inputs: Inputs, leaves: Sequence[Any], decomposes: Decomposes, sizes: Mapping[str, int], number: int = 0
) -> tuple[Trace, bool]:
    """Return a recording, and whether sizes in it depend on values."""
    drawn = Counts(number)
    before = counts.set(drawn)
    try:
        recorder, numbers, results, structure = record_call(
            inputs.function, inputs.call, leaves, RecordedDevices(decomposes)
        )
    except BurnpyError as error:
        if drawn.used:
            error.add_note("export() calls the model with other numbers of elements than those that values choose")
        raise
    finally:
        counts.reset(before)
    outputs: dict[str, Any] = {}
    for path, leaf in zip(paths(structure, "output"), results, strict=True):
        if leaf.__class__ is OutputLeaf:
            outputs[path] = recorder.recording.outputs[leaf.position]
        elif isinstance(leaf, TensorBase):
            value: Any = leaf
            outputs[path] = value.to_numpy()
        elif leaf is not None:
            raise ExportError(f"export() writes models that return tensors, and {path} is {leaf!r:.60}")
    return Trace(recorder.recording, numbers, outputs, recorder.inner, sizes), bool(drawn.used)


class MissingResultError(Exception):
    """A result is needed that an operation's rule does not give: the operation is exported by its default."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


def captured(function: Any) -> dict[str, Any]:
    """Return the trees of tensors that a function and its helpers read from outside, by name.

    >>> weight = Tensor[NumPy].ones((2,))
    >>> def scaled(x):
    ...     return x * weight
    >>> captured(lambda x: scaled(x))
    {'scaled.weight': Tensor([1., 1.], shape=(2,), dtype=float32, device=NumPy)}
    """
    return dict(_captured(function, "", set()))


def rebuilt(function: Any, trees: Mapping[str, Any]) -> Any:
    """Return a function that reads other trees than those of `captured`."""
    return _rebuilt(function, "", trees)


_DEEPEST = 4
"""The number of objects inside of each other in which tensors are found."""
_PACKAGES = ("builtins", "burnpy", "numpy", "typing")
"""The packages in whose objects no tensors of a model are."""


def _captured(holder: Any, prefix: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(holder) in seen or prefix.count(".") > _DEEPEST:
        return
    seen.add(id(holder))
    for name, value in _inside(holder).items():
        value = uncompiled(value)
        if _has_tensors(value):
            yield f"{prefix}{name}", value
        else:
            yield from _captured(value, f"{prefix}{name}.", seen)


def uncompiled(function: Any) -> Any:
    """Return the function or module that a compiled function calls; others as they are."""
    return uncompiled(function._f) if isinstance(function, Compiled) else function


def _inside(holder: Any) -> dict[str, Any]:
    """Return the values that a function reads from cells, globals and defaults, or those that an object holds."""
    if isinstance(holder, FunctionType):
        pairs = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True)
        cells = {name: cell.cell_contents for name, cell in pairs if _is_filled(cell)}
        known = {name: holder.__globals__[name] for name in _names(holder.__code__) if name in holder.__globals__}
        return {**known, **cells, **_defaults(holder), **(holder.__kwdefaults__ or {})}
    if isinstance(holder, MethodType):
        return {**_inside(holder.__func__), "self": holder.__self__}
    if isinstance(holder, partial):
        return {"func": holder.func, **{f"args_{k}": x for k, x in enumerate(holder.args)}, **holder.keywords}
    if isinstance(holder, (list, tuple, dict)):
        return {str(k): x for k, x in (holder.items() if isinstance(holder, dict) else enumerate(holder))}
    if isinstance(holder, (ModuleType, type)) or type(holder).__module__.partition(".")[0] in _PACKAGES:
        return {}
    return dict(getattr(holder, "__dict__", {}))


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Return the defaults of the parameters that a call may give by position."""
    code, values = function.__code__, function.__defaults__ or ()
    return dict(zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _has_tensors(value: Any) -> bool:
    if isinstance(value, (TensorBase, Module)):
        return True
    return isinstance(value, (tuple, list, dict)) and any(isinstance(leaf, TensorBase) for leaf in flatten(value)[0])


def _rebuilt(holder: Any, prefix: str, trees: Mapping[str, Any]) -> Any:
    if not any(name.startswith(prefix) for name in trees):
        return holder
    holder = uncompiled(holder)
    inside = _inside(holder)
    new = {
        name: trees[f"{prefix}{name}"] if f"{prefix}{name}" in trees else _rebuilt(value, f"{prefix}{name}.", trees)
        for name, value in inside.items()
        if value is not holder
    }
    if isinstance(holder, FunctionType):
        return _function(holder, new)
    if isinstance(holder, MethodType):
        return MethodType(_rebuilt(holder.__func__, prefix, trees), new["self"])
    if isinstance(holder, partial):
        args = [new[f"args_{k}"] for k in range(len(holder.args))]
        return partial(new["func"], *args, **{name: new[name] for name in holder.keywords})
    if isinstance(holder, dict):
        return {k: new.get(str(k), x) for k, x in holder.items()}
    if isinstance(holder, (list, tuple)):
        members = [new[str(k)] for k in range(len(holder))]
        return type(holder)(*members) if hasattr(holder, "_fields") else type(holder)(members)
    made = copy(holder)
    vars(made).update(new)
    return made


def _function(function: Any, new: Mapping[str, Any]) -> Any:
    """Return a function of Python with other values in its cells, globals and defaults."""
    pairs = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = tuple([CellType(new[name]) if name in new else cell for name, cell in pairs])
    space = {**function.__globals__, **{name: new[name] for name in _names(function.__code__) if name in new}}
    defaults = tuple([new[name] for name in _defaults(function)]) or None
    made = FunctionType(function.__code__, space, function.__name__, defaults, cells)
    made.__kwdefaults__ = {name: new[name] for name in function.__kwdefaults__ or {}} or None
    return made
