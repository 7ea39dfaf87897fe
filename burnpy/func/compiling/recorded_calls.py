"""Calls of compiled functions: their arguments as inputs of a recording, and its outputs as the function's result."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any, NoReturn
from weakref import getweakrefcount

import numpy as np

from burnpy.autodiff.graph import Leaf
from burnpy.backend.backend import Backend
from burnpy.backend.call_origin import format_lines, lines_of
from burnpy.backend.decorators.recorded import RecordedDevices
from burnpy.backend.errors import KindError, RecordingError, StateError, a
from burnpy.backend.plans.plan import Plan, PlanExplanation
from burnpy.backend.plans.recording import DefaultGenerator, Traced, alike
from burnpy.backend.primitives import INEXACT
from burnpy.func.compiling.names_read import Captured
from burnpy.func.pytree import Structure, flatten
from burnpy.tensor.generator import Generator, default_generator, recorders
from burnpy.tensor.levels import levels_of, lifted_to
from burnpy.tensor.tensor import DIFFERENTIABLE
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of

STATIC = (int, bool, str, bytes, type(None))
"""The classes of arguments whose values distinguish plans."""
NUMPY_FLOATS: tuple[type[Any], ...] = (np.float16, np.float32, np.float64)
_NUMPY_NUMBERS: tuple[type[Any], ...] = (*NUMPY_FLOATS, np.integer, np.bool_)
"""The classes of NumPy's numbers, which are arguments as Python's are."""
_RETURNED = (*STATIC, float, complex, type, enum.Enum, np.dtype, np.generic, Backend, Generator)
"""The classes of constants that a result may hold."""


class Call:
    """The arguments of one call: the leaves of their trees, and what distinguishes plans."""

    __slots__ = ("args", "donated", "identities", "inline", "key", "kwargs", "leaves", "own", "structure")

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        donated: Mapping[str, int] = MappingProxyType({}),
        own: int = 0,
    ) -> None:
        self.args, self.kwargs = args, kwargs
        leaves, self.structure = flatten((args, kwargs), whole=True)
        self.leaves: list[Any] = [leaf.item() if isinstance(leaf, _NUMPY_NUMBERS) else leaf for leaf in leaves]
        self.inline = False
        first: dict[int, int] = {}
        self.key = tuple([self._key(leaf, first, number) for number, leaf in enumerate(self.leaves)])
        self.donated = donated  #: the names and positions of the parameters whose arguments are donated
        self.own = own  #: the number of the first leaves that are a compiled module's own
        self.identities = tuple([id(leaf._primitive) for leaf in self.leaves[:own] if isinstance(leaf, TensorBase)])

    def values(self, inputs: Sequence[int], device: Any) -> list[Any]:
        """Return the primitives of the plain device in the leaves that are inputs."""
        return [primitive_of(self.leaves[k], device) for k in inputs]

    def _key(self, leaf: Any, first: dict[int, int], number: int) -> Any:
        """Return what a plan depends on: class, device, shape, dtype and leaf of a tensor, or a static leaf's value.

        A tracked tensor's leaf is the number of the first argument with its node: gradients of all of them add up.
        """
        if isinstance(leaf, TensorBase):
            device: Any = leaf._device
            if device.level or device.stands_for is not None:
                self.inline = True
            primitive = leaf._primitive
            tracked = None
            if leaf.kind in INEXACT and device.differentiates and device.is_require_grad(primitive):
                tracked = first.setdefault(id(getattr(primitive, "node", None) or primitive), number)
            return (leaf.__class__, device, primitive.shape, primitive.dtype, tracked)
        kind = leaf.__class__
        if kind is float or kind is Generator:
            return kind
        if isinstance(leaf, np.ndarray):
            raise KindError(
                f"a compiled function got a NumPy array of shape {leaf.shape}, which would be a constant of its plan; "
                "pass a tensor, as with Tensor.from_data(array, device=...)"
            )
        if isinstance(leaf, STATIC):
            return (kind, leaf)
        return (kind, id(leaf))


class OutputLeaf:
    """One leaf of a function's result, as it is made of an output of the plan."""

    __slots__ = ("cls", "device", "input", "leaf", "levels", "position")

    def __init__(self, cls: type[Any], device: Any, leaf: bool, position: int, given: int | None) -> None:
        self.cls, self.device, self.leaf, self.position = cls, device, leaf, position
        self.input = given  #: the number of the argument that it is, if the function returned one
        self.levels: list[Any] = levels_of(device)[::-1] if cls.kind in INEXACT else []

    def tensor(self, primitive: Any) -> Any:
        """Return the tensor that holds a primitive of the plain device."""
        for level in self.levels:
            primitive = level.lift(primitive)
        if self.leaf:
            primitive = self.device.require_grad(primitive)
        return new_tensor(self.cls, self.device, primitive)


class RecordedCall:
    """A plan of a function, with the ways from its arguments to the plan and from there to its result."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        call: Call,
        inputs: list[int],
        results: list[Any],
        structure: Structure,
        donated: Set[int],
    ) -> None:
        self.plan, self.inputs = plan, inputs
        self.structure = call.structure  #: of the arguments
        self._alive = [leaf for leaf in call.leaves if not isinstance(leaf, TensorBase)]  # the key has the ids of some
        self.captured = Captured()  #: what the function reads besides its arguments
        self.guard: Any = None  #: the function that compares arguments with those of the plan, which `Compiled` writes
        self.runs = 0  #: how often it was replayed
        self._results, self._gone = results, Donated(name)
        self._result_structure = structure.sharing(self.structure)
        kept = {leaf.input for leaf in results if leaf.__class__ is OutputLeaf and leaf.input is not None}
        self._donated = sorted(donated - kept)  # the arguments that are tensors, are donated and are no results
        self._kept = sorted(kept)  # one tensor may be several arguments: a frozen parameter of a model and its average
        self._free = [k for k, number in enumerate(inputs) if number in self._donated]
        first: Any = results[0] if self._result_structure.handler is None else None
        is_plain = first.__class__ is OutputLeaf and first.input is None and not first.levels and not first.leaf
        self._only: OutputLeaf | None = first if is_plain else None  # the result, if it is a new tensor

    def replay(self, leaves: list[Any], values: list[Any]) -> Any:
        """Return the function's result for the leaves of a call's arguments, and the inputs among them."""
        self.runs += 1
        if self._donated:
            kept = {id(leaves[k]) for k in self._kept}
            for k in self._donated:
                if id(leaves[k]) not in kept:
                    leaves[k]._primitive = self._gone
            results = self.plan(values, [k for k in self._free if unshared(values, k)])
        else:
            results = self.plan(values)
        only = self._only
        if only is not None:
            return new_tensor(only.cls, only.device, results[only.position])
        made = [
            leaf
            if leaf.__class__ is not OutputLeaf
            else leaves[leaf.input]
            if leaf.input is not None
            else leaf.tensor(results[leaf.position])
            for leaf in self._results
        ]
        return self._result_structure.unflatten(made)

    def explanation(self) -> PlanExplanation:
        """Return what the plan does."""
        reads = tuple(dict.fromkeys(place.label for place in self.captured.places if " " not in place.label))
        return replace(self.plan.explanation(), runs=self.runs, reads=reads)


def _donated_leaves(structure: Structure, donated: Mapping[str, int]) -> list[int]:
    """Return the numbers of the leaves of donated arguments, which are passed by position or by name."""
    by_position, by_name = structure.children
    arguments = [*enumerate(by_position.children), *zip(by_name.rest, by_name.children, strict=True)]
    chosen = {*donated, *donated.values()}
    numbers: list[int] = []
    start = 0
    for key, child in arguments:
        count = child.size
        if key in chosen:
            numbers += range(start, start + count)
        start += count
    return numbers


def primitive_of(leaf: Any, device: Any) -> Any:
    """Return the primitive of the plain device in an argument: of a tensor, or of a float."""
    if leaf.__class__ is float:
        return device.host_number(leaf)
    if leaf.__class__ is Generator:
        return leaf._numpy
    device, primitive = leaf._device, leaf._primitive
    if leaf.kind in INEXACT:
        while device.differentiates:
            primitive = device.lower(primitive)
            device = device.inner
    return primitive


def recorded(f: Callable[..., Any], call: Call) -> RecordedCall:
    """Call a function on devices that record, and return its plan."""
    start = perf_counter()
    name = f"{getattr(f, '__qualname__', type(f).__name__)}()"
    recorder, inputs, results, structure = record_call(f, call, call.leaves, RecordedDevices())
    given = _donated_leaves(call.structure, call.donated)
    donated = {number for number in given if isinstance(call.leaves[number], TensorBase)}
    free = {k for k, number in enumerate(inputs) if number in donated}
    own = {k: call.leaves[number] for k, number in enumerate(inputs) if number < call.own}
    fixed = {k: primitive_of(leaf, recorder.inner) for k, leaf in own.items() if isinstance(leaf, TensorBase)}
    plan = Plan(recorder.recording, recorder.inner, donated=free, fixed=fixed)
    plan.seconds = perf_counter() - start
    return RecordedCall(plan, name, call, inputs, results, structure, donated)


def compare(f: Callable[..., Any], call: Call, plan: RecordedCall) -> None:
    """Record a call again with other values, and compare the operations with the first ones."""
    first = plan.plan.recording
    disturbed = [_disturbed(leaf) for leaf in call.leaves]
    second = record_call(f, call, disturbed, RecordedDevices())[0].recording
    for one, two in zip(first.nodes, second.nodes, strict=False):
        if not alike(one, two, first, second):
            raise RecordingError(
                f"compiled(check=True) recorded {two.name}() with other arguments than before, although only values of "
                "the function's arguments changed: it depends on something else, such as a counter, random numbers of "
                f"Python or the time; pass that as an argument\n{format_lines(lines_of(two.line))}"
            )
    if len(first.nodes) != len(second.nodes):
        raise RecordingError(
            f"compiled(check=True) recorded {len(first.nodes)} operations and then {len(second.nodes)}, although only "
            "values of the function's arguments changed: it depends on something else; pass that as an argument"
        )


def _disturbed(leaf: Any) -> Any:
    """Return an argument with other values, if it has floats."""
    if leaf.__class__ is float:
        return leaf * 1.25 + 0.5
    if not isinstance(leaf, DIFFERENTIABLE):
        return leaf
    changed = leaf.detach() * 1.25 + 0.5
    return changed.require_grad() if leaf.is_require_grad() else changed


def record_call(
    f: Callable[..., Any], call: Call, leaves: Sequence[Any], devices: RecordedDevices
) -> tuple[Any, list[int], list[Any], Structure]:
    """Call a function on devices that record.

    Args:
        f: the function.
        call: its arguments.
        leaves: the leaves of the arguments, which may have other values than those of the call.
        devices: the devices of the recording, without any yet.

    Returns:
        The recorder, the numbers of the leaves that are inputs, the leaves of the result and its structure.
    """
    inputs, traced = _traced(call, leaves, devices)
    recorder = devices.recorder
    args, kwargs = call.structure.unflatten(traced)
    token = recorders.set((*recorders.get(), recorder))
    try:
        result = f(*args, **kwargs)
    finally:
        recorders.reset(token)
        recorder.close()
        recorder.undraw()
    out, structure = flatten(result, whole=True)
    by_id = {id(tensor): number for number, tensor in enumerate(traced)}
    results = [_result(recorder, leaf, by_id) for leaf in out]
    for leaf in results:
        if not (isinstance(leaf, (*_RETURNED, OutputLeaf, TensorBase)) or any(leaf is x for x in leaves)):
            raise KindError(
                f"a compiled function returned {a(type(leaf).__name__)}, which its replays cannot make; return "
                "tensors, numbers and text in tuples, lists, dicts and modules, or register its class with "
                "func.register_tree"
            )
    return recorder, inputs, results, structure


def _traced(call: Call, leaves: Sequence[Any], devices: RecordedDevices) -> tuple[list[int], list[Any]]:
    """Return the numbers of the leaves that are inputs, and the leaves as a recorded function gets them."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorBase)]
    if not tensors:
        held = [x for x in leaves if any(isinstance(y, TensorBase) for y in getattr(x, "__dict__", {}).values())]
        hint = f"func.register_tree({type(held[0]).__name__}, ...) shows it the tensors of one" if held else ""
        hint = hint or "make one by Tensor.from_data(values, device=device)"
        kinds = " and ".join(dict.fromkeys(a(type(leaf).__name__) for leaf in leaves)) or "no argument"
        raise KindError(
            f"a compiled function takes at least one tensor, which says where it computes, and got {kinds}; {hint}"
        )
    for leaf in tensors:
        devices.of(leaf._device)
    recorder = devices.recorder
    recorder.defaults = [DefaultGenerator(partial(_default_of, device)) for device in devices]
    inputs, traced = list[int](), list[Any]()
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, TensorBase) and call.key[number][-1] not in (None, number):
            traced.append(traced[call.key[number][-1]])
        elif isinstance(leaf, TensorBase) or leaf.__class__ is float:
            inputs.append(number)
            traced.append(_input(devices, leaf))
        else:
            traced.append(leaf)
            if leaf.__class__ is Generator:
                inputs.append(number)
                recorder.generators[id(leaf._numpy)] = recorder.recording.generator()
    return inputs, traced


def _default_of(device: Any) -> np.random.Generator:
    return default_generator(device)._numpy


def _input(devices: RecordedDevices, leaf: Any) -> Any:
    """Return an argument as an input of the recording."""
    recorder = devices.recorder
    if leaf.__class__ is float:
        numbers = recorder.numbers or recorder.with_numbers()
        return tensor_of(numbers, numbers.input(recorder.inner.host_number(leaf)))
    device = devices.of(leaf._device)
    primitive: Any = recorder.input(primitive_of(leaf, recorder.inner))
    if leaf.kind in INEXACT:
        outer = leaf._device
        if outer.differentiates and outer.is_require_grad(leaf._primitive):
            if leaf._primitive.node.target.__class__ is not Leaf:
                raise RecordingError(
                    f"a compiled function got a tensor of shape {leaf.shape} that was computed from tracked ones, and "
                    "no gradient would flow back through it; compute it inside, or pass x.detach()"
                )
            return new_tensor(type(leaf), device, device.require_grad(lifted_to(device, primitive)))
        primitive = lifted_to(device, primitive)
    return new_tensor(type(leaf), device, primitive)


def _result(recorder: Any, leaf: Any, given: dict[int, int]) -> Any:
    """Return how a leaf of the result is made; the leaf itself if it is no tensor of the recording."""
    if not isinstance(leaf, TensorBase):
        return leaf
    device: Any = leaf._device
    if device.stands_for is None:
        return leaf
    primitive, is_leaf = leaf._primitive, False
    if leaf.kind in INEXACT:
        outer = device
        while outer.differentiates:
            node = getattr(primitive, "node", None)
            if node is not None and outer is device:
                is_leaf = node.target.__class__ is Leaf
                if not is_leaf and hasattr(node, "alive"):
                    raise RecordingError(
                        f"a compiled function returned a tensor of shape {leaf.shape} that is still to be "
                        "differentiated; call backward() inside and return the gradients, or return x.detach()"
                    )
            primitive = outer.lower(primitive)
            outer = outer.inner
    if primitive.__class__ is not Traced:
        primitive = recorder._constant(primitive)
    recorder.recording.outputs.append(primitive.ref)
    position = len(recorder.recording.outputs) - 1
    return OutputLeaf(type(leaf), device.stands_for, is_leaf, position, given.get(id(leaf)))


class Donated:
    """The primitive of a tensor that was donated: every use of it raises an error."""

    __slots__ = ("_function",)

    def __init__(self, function: str) -> None:
        self._function = function

    def __getattr__(self, name: str) -> NoReturn:
        raise StateError(
            f"this tensor was donated to {self._function}, which may have overwritten its memory; use the tensors that "
            "the function returned, or leave the argument out of donate="
        )


def unshared(arrays: list[Any], position: int) -> bool:
    """Return whether a list holds the only reference to one of its arrays, so that it may be overwritten.

    A weak reference counts as well: by its identity an array is known to have been converted, as `Mixed` rounds it.
    """
    return sys.getrefcount(arrays[position]) <= _REFERENCES_OF_ONE_LIST and not getweakrefcount(arrays[position])


_one = [object()]
_REFERENCES_OF_ONE_LIST = (lambda arrays, position: sys.getrefcount(arrays[position]))(_one, 0)
"""The count of references to an object that only a list holds, as `unshared` sees it."""
