"""Recordings of a model for export: one, and others with inputs of other sizes, from which numbers are generalized."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.decorators.recorded import Decomposes, RecordedDevices
from burnpy.backend.errors import ArgumentError, BurnpyError, ExportError, KindError, RecordingError
from burnpy.backend.functions import signature
from burnpy.backend.plans.recording import Node, Recording, Ref, refs_in
from burnpy.func.compiling.compilation import Compiled
from burnpy.func.compiling.recorded_calls import Call, OutputLeaf, record_call
from burnpy.func.pytree import flatten, paths
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


_STEPS: tuple[Callable[[int, int], int], ...] = (
    lambda size, k: size * (k + 1),  # keeps what a size is divisible by
    lambda size, k: size + k,
    lambda size, k: max(size - k, 1),  # where a table has no more positions
)
"""How the sizes of recordings follow from those of the example."""


def traces(
    model: Callable[..., Any], inputs: Inputs, symbols: Mapping[tuple[int, int], str], decomposes: Decomposes
) -> list[Trace]:
    """Record a model with its inputs, and with inputs of other sizes: each symbol alone, and all of them."""
    names = sorted(set(symbols.values()))
    if not names:
        return [_trace(model, inputs, inputs.call.leaves, decomposes)]
    sizes = {symbol: inputs.call.leaves[number].shape[dim] for (number, dim), symbol in symbols.items()}
    base = {symbol: size if size > 1 else 2 for symbol, size in sizes.items()}  # a size of 1 broadcasts
    failed: BurnpyError | None = None
    for step in _STEPS:
        chosen = [base, *[{**base, symbol: step(base[symbol], 1)} for symbol in names]]
        chosen.append({symbol: step(base[symbol], 2 + k) for k, symbol in enumerate(names)})
        try:
            return [_trace(model, inputs, _resized(inputs, symbols, new), decomposes) for new in chosen]
        except (RecordingError, ExportError):
            raise
        except BurnpyError as error:
            failed = failed or error
    raise ExportError(
        f"export() calls the model with other sizes of {', '.join(names)}, which failed: {failed}"
    ) from failed


def _resized(inputs: Inputs, symbols: Mapping[tuple[int, int], str], sizes: Mapping[str, int]) -> list[Any]:
    """Return the leaves of a call with inputs of other sizes, whose elements are those of the example, repeated."""
    leaves = list(inputs.call.leaves)
    for (number, dim), symbol in symbols.items():
        leaf = leaves[number]
        size = leaf.shape[dim]
        if not size:
            raise ArgumentError(f"export() takes inputs that are not empty, got shape {leaf.shape}")
        array = np.take(leaf.to_numpy(), np.arange(sizes[symbol]) % size, dim)
        leaves[number] = type(leaf).from_data(array, device=leaf.device)
    return leaves


def _trace(model: Any, inputs: Inputs, leaves: Sequence[Any], decomposes: Decomposes) -> Trace:
    recorder, numbers, results, structure = record_call(
        inputs.function, inputs.call, leaves, RecordedDevices(decomposes)
    )
    outputs: dict[str, Any] = {}
    for path, leaf in zip(paths(structure, "output"), results, strict=True):
        if leaf.__class__ is OutputLeaf:
            outputs[path] = recorder.recording.outputs[leaf.position]
        elif isinstance(leaf, TensorBase):
            value: Any = leaf
            outputs[path] = value.to_numpy()
        elif leaf is not None:
            raise ExportError(f"export() writes models that return tensors, and {path} is {leaf!r:.60}")
    return Trace(recorder.recording, numbers, outputs, recorder.inner)


class Varying:
    """A float that differs between the recordings. It has no arithmetic, in which its other values would be lost."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values  #: in each recording

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return " / ".join(map(repr, self.values))


class Size(Varying):
    """An int that differs between the recordings."""

    __slots__ = ()


class DifferError(Exception):
    """A value that is no number differs between the recordings."""


def merged(values: Sequence[Any], operand: Callable[[Ref], Any]) -> Any:
    """Return one value for those that several recordings have in one place.

    Args:
        values: an argument of a node in each recording.
        operand: maps a value of the first recording to what stands for it.

    Raises:
        DifferError: they differ, and are no numbers.

    >>> merged([(2, 8, 0.5), (4, 8, 0.5)], lambda ref: ref)
    (2 / 4, 8, 0.5)
    """
    first = values[0]
    kind = first.__class__
    if any(value.__class__ is not kind for value in values):
        raise DifferError
    if kind is Ref:
        if any(value.number != first.number for value in values):
            raise DifferError
        return operand(first)
    if isinstance(first, (tuple, list)):
        if any(len(value) != len(first) for value in values):
            raise DifferError
        members = [merged(column, operand) for column in zip(*values, strict=True)]
        return kind(*members) if hasattr(kind, "_fields") else kind(members)
    if kind is slice:
        ends = [merged([getattr(value, end) for value in values], operand) for end in ("start", "stop", "step")]
        return slice(*ends)
    if kind is int:
        return merged_size(values)
    if kind is float:
        same = all(value == first or (value != value and first != first) for value in values)
        return first if same else Varying(tuple(values))
    if isinstance(first, (bool, str, type(None))) and any(value != first for value in values):
        raise DifferError
    return first  # a dtype, or a function that only checks call


def merged_size(values: Sequence[int]) -> int | Size:
    """Return an int that is the same in all recordings, or else a size.

    >>> merged_size([3, 3, 3]), merged_size([2, 4, 6])
    (3, 2 / 4 / 6)
    """
    return values[0] if len(set(values)) == 1 else Size(tuple(values))


FEW = 16  # the number of elements up to which those of an array may follow from sizes


def merged_numbers(arrays: Sequence[Any]) -> list[Any] | None:
    """Return the elements of small arrays that differ between the recordings; None for others."""
    first = arrays[0]
    alike = all(a.shape == first.shape and first.dtype.kind in "fi" and a.size <= FEW for a in arrays)
    if not alike or all(a.tobytes() == first.tobytes() for a in arrays):
        return None
    return [merged(row, lambda ref: ref) for row in zip(*[a.reshape(-1).tolist() for a in arrays], strict=True)]


def fixed_results(
    nodes: Sequence[Node], shapes: Mapping[int, tuple[Any, ...]], devices: Sequence[Any]
) -> list[list[Any]] | None:
    """Return the results of an operation in each recording if nothing has elements that could change them, else None.

    Runtimes refuse many an operator without elements, or return 0 as the mean of none.
    """
    first, results = nodes[0], list(refs_in(nodes[0].results))
    given = list(refs_in(first.args))
    if any(isinstance(size, Size) for ref in (*given, *results) for size in shapes[ref.number]) or first.effect:
        return None
    if results and all(0 in ref.shape for ref in results):
        return [[np.empty(ref.shape, ref.dtype)] * len(nodes) for ref in results]
    if not given or first.name == "nested" or not all(0 in ref.shape for ref in given):
        return None
    found = [getattr(d, node.name)(*_without_elements(node.args, d)) for d, node in zip(devices, nodes, strict=True)]
    rows = [x if isinstance(x, (tuple, list)) else [x] for x in found]
    return [[d.to_numpy(x) for d, x in zip(devices, column, strict=True)] for column in zip(*rows, strict=True)]


def _without_elements(x: Any, device: Any) -> Any:
    """Return an argument of a node with arrays for values."""
    if type(x) in (tuple, list):
        return type(x)([_without_elements(member, device) for member in x])
    return device.from_numpy(np.empty(x.shape, x.dtype)) if x.__class__ is Ref else x


class Expression(NamedTuple):
    """A size as ``one · two · numerator // denominator + offset``, where one and two are known sizes, or None for 1."""

    one: tuple[int, ...]
    two: tuple[int, ...] | None = None
    numerator: int = 1
    denominator: int = 1
    offset: int = 0


def expression_of(values: tuple[int, ...], known: Sequence[tuple[int, ...]]) -> Expression | None:
    """Return how a size follows from known ones, in all recordings; None if no expression is found.

    >>> expression_of((8, 16, 24), [(2, 4, 6)])
    Expression(one=(2, 4, 6), two=None, numerator=4, denominator=1, offset=0)
    >>> expression_of((3, 5, 7), [(2, 4, 6)])
    Expression(one=(2, 4, 6), two=None, numerator=1, denominator=1, offset=1)
    """
    pairs = [(one, two) for k, one in enumerate(known) for two in known[k:]]
    for one, two in [*[(one, None) for one in known], *pairs]:
        product = one if two is None else tuple([a * b for a, b in zip(one, two, strict=True)])
        for a, b, p, q in zip(product, product[1:], values, values[1:], strict=False):
            if a == b:
                continue
            slope = Fraction(q - p, b - a)
            offset = p - slope * a
            exact = all(slope * x + offset == y for x, y in zip(product, values, strict=True))
            if slope and exact and offset.denominator == 1:
                return Expression(one, two, slope.numerator, slope.denominator, int(offset))
            break
    return None


POWERS: Mapping[str, Callable[[float], float]] = {
    "": lambda size: size,
    "Reciprocal": lambda size: 1.0 / size,
    "Sqrt": lambda size: size**0.5,
    "Reciprocal of Sqrt": lambda size: size**-0.5,
}
"""Functions of sizes that numbers of models are, by their operators."""


def power_of(values: tuple[float, ...], known: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], str, float] | None:
    """Return how a float follows from a known size: the size, a name in `POWERS` and a factor.

    >>> power_of((0.5, 0.25, 0.125), [(2, 4, 8)])
    ((2, 4, 8), 'Reciprocal', 1.0)
    """
    for size in known:
        if 0 in size:
            continue
        for name, power in POWERS.items():
            factor = values[0] / power(size[0])
            if all(abs(factor * power(n) - value) <= 4e-16 * abs(value) for n, value in zip(size, values, strict=True)):
                return size, name, factor
    return None


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
