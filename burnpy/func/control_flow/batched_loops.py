"""Branches and loops under `vmap`, where examples differ in the branch that they take or in when they end."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import is_
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.backend.errors import OWN_PACKAGES, DeviceError
from burnpy.backend.primitives import INEXACT, Value
from burnpy.batching.batch_methods import BatchedValue
from burnpy.batching.batched import Batched
from burnpy.func.compiling.names_read import names_in
from burnpy.func.control_flow.recorded_branches import recorded_while
from burnpy.func.control_flow.recorded_scans import recorded_scan
from burnpy.func.pytree import Structure, children_of, flatten, is_module
from burnpy.func.user_functions import Level, base_for
from burnpy.func.vectorization import batch_at, batch_first
from burnpy.tensor.joining import where
from burnpy.tensor.levels import differs_between_examples, levels_of, open_levels, raised, working_on
from burnpy.tensor.tensor import DIFFERENTIABLE, BoolTensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of


def looped_while(condition: Callable[..., Any], step: Callable[..., list[Any]], state: list[Any]) -> list[Any]:
    """Record a `while_loop`, as `recorded_while`, on the device beneath the levels of `vmap` that are innermost."""
    level: Any = base_for("while_loop", state)
    if stays_beneath(level):
        return while_beneath(level, condition, step, state)
    if not level.lifts_discrete:
        return recorded_while(condition, step, state)
    batched = [True] * len(state)

    def test(leaves: list[Any]) -> Any:
        return _for_examples(level, leaves, batched, lambda own, xs: any_example(condition(xs), own))

    def advance(leaves: list[Any]) -> list[Any]:
        def all_examples(own: Any, xs: list[Any]) -> list[Any]:
            return [_beneath(own, x) for x in next_leaves(condition(xs), step, xs)]

        return _for_examples(level, leaves, batched, all_examples)  # type: ignore[no-any-return]  # as it returns

    lowered = [_beneath(level, x) for x in state]
    with working_on(level.inner):
        results = looped_while(test, advance, lowered)
    return [_on_level(level, x) for x in results]


def looped_scan(
    body: Any, carry: list[Any], xs: list[Any], length: int, reverse: bool, again: bool
) -> tuple[list[Any], list[Any]] | None:
    """Record a `scan`, as `recorded_scan`, on the device beneath the levels of `vmap` that are innermost."""
    level: Any = base_for("scan", (*carry, *xs))
    if stays_beneath(level):
        return scan_beneath(level, body, carry, xs, length, reverse, again)
    if not level.lifts_discrete:
        return recorded_scan(body, carry, xs, length, reverse, again)
    owned = [level.own(raised(x, level)._primitive) for x in xs]
    batched = [True] * len(carry) + [x.batched for x in owned]

    def all_examples(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        def of(own: Any, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
            new, y = body(leaves[: len(carry)], leaves[len(carry) :])
            return [_beneath(own, leaf) for leaf in new], [_beneath(own, leaf) for leaf in y]

        return _for_examples(level, [*carry, *x], batched, of)  # type: ignore[no-any-return]  # as it returns

    lowered = [new_tensor(type(x), level.inner, own.value) for x, own in zip(xs, owned, strict=True)]
    slices = [
        batch_at(x, level.inner, 1) if own.batched else x for x, own in zip(lowered, owned, strict=True)
    ]  # the steps first, then the batch
    with working_on(level.inner):
        found = looped_scan(all_examples, [_beneath(level, x) for x in carry], slices, length, reverse, again)
    if found is None:
        return None
    last, stacks = found
    return [_on_level(level, x) for x in last], [_on_level(level, batch_first(y, level.inner, 1)) for y in stacks]


def _for_examples(
    level: Any, leaves: Sequence[Any], batched: Sequence[bool], f: Callable[[Any, list[Any]], Any]
) -> Any:
    """Call ``f`` with a level that stands for ``level`` in a nested recording, and with the leaves on it. The leaves
    are of the device beneath ``level``; those that are ``batched`` have the batch as their first dimension."""
    with Level(Batched, level.api, leaves[0]._device) as own:
        own.size, own.randomness = level.size, level.randomness
        own.stands_for, own.entry = level, partial(_enter, own)
        return f(
            own,
            [
                new_tensor(type(x), own, BatchedValue(own, x._primitive, has_batch))
                for x, has_batch in zip(leaves, batched, strict=True)
            ],
        )


def _enter(own: Any, level: Any, primitive: BatchedValue) -> BatchedValue:
    """Return a primitive of the level outside, over which a function closes, on the level that stands for it."""
    value: Value = primitive.value
    if primitive.dtype.kind not in "iub":
        value = raised(tensor_of(level.inner, value), own.inner)._primitive
    return BatchedValue(own, value, primitive.batched)


def _beneath(level: Any, x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a tensor of the device beneath a level, with the batch as its first dimension."""
    return new_tensor(type(x), level.inner, level.spread(level.own(raised(x, level)._primitive)))  # type: ignore[no-any-return]  # of x's class


def _on_level(level: Any, x: TensorBase[Any]) -> TensorBase[Any]:
    """Return a tensor of the device beneath a level, whose first dimension is the batch, as one of the level."""
    return new_tensor(type(x), level, BatchedValue(level, x._primitive, True))  # type: ignore[no-any-return]  # of x's class


def stays_beneath(level: Any) -> bool:
    """Return whether a loop on a level of a derivative is one on the device beneath, over values and their tangents. So
    it is in forward mode if there are further levels, and in reverse above a level of `vmap` if nothing is recorded."""
    if not isinstance(level, (Autodiff, Forward)) or not level.level:
        return False
    if isinstance(level, Forward):
        return bool(level.inner.differentiates)
    device: Any = level.inner
    while device.differentiates and not device.lifts_discrete:
        device = device.inner
    return bool(device.differentiates) and _is_silent(level)


def _is_silent(level: Any) -> bool:
    mode = level.mode()
    return mode is not None and bool(mode.silences(level.level))


def while_beneath(
    level: Any, condition: Callable[..., Any], step: Callable[..., list[Any]], state: list[Any]
) -> list[Any]:
    """Record a `while_loop` on the device beneath a level that differentiates, with the tangents as further state."""
    split = _Tangents(level, state)

    def test(leaves: list[Any]) -> Any:
        return split.inside(leaves, lambda own, xs: _lowered(condition(xs), own)[0])

    def advance(leaves: list[Any]) -> list[Any]:
        return split.inside(leaves, lambda own, xs: split.apart(own, step(xs)))  # type: ignore[no-any-return]  # a list

    with working_on(level.inner):
        return split.joined(looped_while(test, advance, split.apart(level, state)))


def scan_beneath(
    level: Any, body: Any, carry: list[Any], xs: list[Any], length: int, reverse: bool, again: bool
) -> tuple[list[Any], list[Any]] | None:
    """Record a `scan` on the device beneath a level that differentiates, with the tangents beside the values."""
    of_carry, of_xs = _Tangents(level, carry), _Tangents(level, xs)
    of_ys: list[_Tangents] = []

    def step(new: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        def call(own: Any, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
            after, y = body(leaves[: len(carry)], leaves[len(carry) :])
            of_ys[:] = [_Tangents(level, y)]
            return of_carry.apart(own, after), of_ys[0].apart(own, y)

        both = _Tangents(level, [*carry, *xs])
        count = len(carry)
        leaves = [*new[:count], *x[: len(xs)], *new[count:], *x[len(xs) :]]
        return both.inside(leaves, call)  # type: ignore[no-any-return]  # as it returns

    with working_on(level.inner):
        found = looped_scan(step, of_carry.apart(level, carry), of_xs.apart(level, xs), length, reverse, again)
    if found is None:
        return None
    return of_carry.joined(found[0]), of_ys[0].joined(found[1])


class _Tangents:
    """The leaves of a loop as values of the device beneath a level, and as tangents in forward mode."""

    def __init__(self, level: Any, leaves: Sequence[Any]) -> None:
        self.level, self.classes = level, [type(x) for x in leaves]
        self.pushes = isinstance(level, Forward) and not _is_silent(level)
        self.moved = [k for k, x in enumerate(leaves) if self.pushes and x.kind in INEXACT]

    def apart(self, level: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the values, and then the tangents, of leaves on a level."""
        pairs = [_lowered(x, level) for x in leaves]
        zeros = [self._tangent(level, *pairs[k]) for k in self.moved]
        return [value for value, _ in pairs] + zeros

    def _tangent(self, level: Any, value: Any, tangent: Any) -> Any:
        return value.zeros_like() if tangent is None else tensor_of(level.inner, tangent)

    def inside(self, leaves: Sequence[Any], f: Callable[[Any, list[Any]], Any]) -> Any:
        """Call ``f`` with a level that stands for the one outside in a nested recording, and the leaves on it."""
        kind: Any = Forward if isinstance(self.level, Forward) else Autodiff
        count = len(self.classes)
        with Level(kind, self.level.api, base_for("while_loop", leaves)) as own:
            own.stands_for, own.entry = self.level, partial(_enter_derivative, own, self.pushes)
            if not self.pushes:
                own.level = self.level.level  # so that it records nothing, either
            raised_leaves = [raised(x, own.inner) if x.kind in INEXACT else x for x in leaves]
            return f(own, self._on(own, raised_leaves[:count], raised_leaves[count:]))

    def joined(self, leaves: Sequence[Any]) -> list[Any]:
        """Return values and tangents of the device beneath as leaves on the level outside."""
        return self._on(self.level, leaves[: len(self.classes)], leaves[len(self.classes) :])

    def _on(self, level: Any, values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        found = dict(zip(self.moved, tangents, strict=True))
        return [
            new_tensor(cls, level, x._primitive) if cls.kind not in INEXACT
            else new_tensor(cls, level, level.dual(x._primitive, found[k]._primitive)) if k in found
            else new_tensor(cls, level, level.lift(x._primitive))
            for k, (cls, x) in enumerate(zip(self.classes, values, strict=True))
        ]  # fmt: skip


def _lowered(x: Any, level: Any) -> tuple[Any, Any]:
    """Return a tensor of the device beneath a level, and the primitive of its tangent, None if it has none."""
    primitive = raised(x, level)._primitive
    if x.kind not in INEXACT:
        return new_tensor(type(x), level.inner, primitive), None
    return tensor_of(level.inner, primitive.value), getattr(primitive, "tangent", None)


def _enter_derivative(own: Any, pushes: bool, level: Any, primitive: Any) -> Any:
    """Return a primitive of the level outside, over which a function closes, on the level that stands for it."""

    def beneath(value: Value) -> Value:
        return raised(tensor_of(level.inner, value), own.inner)._primitive

    tangent = getattr(primitive, "tangent", None)
    if pushes and tangent is not None:
        return own.dual(beneath(primitive.value), beneath(tangent))
    return own.lift(beneath(primitive.value))


def is_under_vmap(x: TensorBase[Any]) -> bool:
    """Return whether a level of `vmap` is at or beneath the device of a tensor."""
    return any(level.lifts_discrete for level in levels_of(x._device))


def chosen_branches(
    predicate: BoolTensor[Any],
    branch: Callable[[Any], Callable[..., list[Any]]],
    functions: Sequence[Any],
    leaves: list[Any],
    structure: Structure,
) -> list[Any]:
    """Call both functions, and return the leaves of the result that each example chooses.

    Args:
        predicate: a bool for each example.
        branch: returns a function as one that returns leaves, of equal shapes and dtypes for both.
        functions: the functions of the operands for True and for False.
        leaves: the leaves of the operands, tensors or not.
        structure: their structure.
    """
    results = []
    for f, chosen in zip(functions, (predicate, ~predicate), strict=True):
        own, given = _constant_for_others(chosen, f, leaves)
        results.append(branch(own)(*structure.unflatten(given)))
    one, two = results
    return [where(predicate, x, y) for x, y in zip(one, two, strict=True)]


def next_state(active: BoolTensor[Any], step: Callable[[list[Any]], list[Any]], leaves: list[Any]) -> list[Any] | None:
    """Return the leaves of a loop's state after one more step of the examples that are active; None if none is."""
    running: Any = active
    while differs_between_examples(running):
        device = running._device
        beneath = device if device.lifts_discrete else device.inner
        running = (
            new_tensor(BoolTensor, beneath, running._primitive)
            if beneath is not device
            else any_example(running, device)
        )
    return next_leaves(active, step, leaves) if running.item() else None


def next_leaves(active: BoolTensor[Any], step: Callable[[list[Any]], list[Any]], leaves: list[Any]) -> list[Any]:
    """Return the leaves of a loop's state after one more step; those of examples that are not active stay."""
    own, given = _constant_for_others(active, step, leaves)
    return [where(active, x, old) for x, old in zip(own(given), leaves, strict=True)]


def any_example(x: BoolTensor[Any], level: Any) -> BoolTensor[Any]:
    """Return whether a bool of a level of `vmap` is True for any of the examples, on the device beneath."""
    own, inner = level.own(raised(x, level)._primitive), level.inner.discrete
    value = inner.any(own.value, (0,), False) if own.batched else own.value
    return new_tensor(BoolTensor, level.inner, value)  # type: ignore[no-any-return]  # of that class


def _constant_for_others(chosen: BoolTensor[Any], f: Any, leaves: list[Any]) -> tuple[Any, list[Any]]:
    """Return a function and its arguments with all tensors constant for the examples that are not chosen. So their
    gradients are 0 even where what they do not choose has none, as the root of a negative number."""
    if all(map(_is_plain, open_levels.get())):
        return f, leaves  # nothing is differentiated, and a copy of the function takes as long as a short step
    unless = partial(_constant_unless, chosen)
    return with_captured(f, unless), [unless(x) for x in leaves]


def _constant_unless(chosen: Any, x: Any) -> Any:
    """Return a tensor that is a constant for examples that are not chosen."""
    if not isinstance(x, DIFFERENTIABLE) or _is_plain(x._device):
        return x
    given: Any = x
    try:
        return where(chosen, given, given.detach())
    except DeviceError:  # a captured tensor of another device, which the function cannot combine with the examples'
        return x


def _is_plain(device: Any) -> bool:
    """Return whether only levels of `vmap` are at and beneath a device, so that nothing is differentiated."""
    while device.lifts_discrete:
        device = device.inner
    return not device.differentiates


def with_captured(f: Any, change: Callable[[Any], Any]) -> Any:
    """Return a function that reads ``change(x)`` in place of each tensor x that ``f`` closes over.

    These tensors are found in variables of enclosing functions, default arguments, arguments of partials and the
    objects of methods; in trees and attributes of these; and in functions there, by the same search; and in variables
    of modules, if they are tensors or models. A variable that code assigns stays as it is, and so does an object whose
    methods assign attributes.

    >>> x = Tensor[NumPy].from_data(3.0)
    >>> with_captured(lambda y: x + y, lambda x: x * 10.0)(1.0).item()
    31.0
    """
    return _Copies(change).of(f)


class _Copies:
    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, tuple[Any, Any]] = {}  # by id: an object, which this keeps alive, and its copy

    def of(self, x: Any) -> Any:
        """Return the copy of an object; the object itself if it has no tensors that change."""
        if id(x) not in self._known:
            self._known[id(x)] = (x, x)
            self._known[id(x)] = (x, self._made(x))
        return self._known[id(x)][1]

    def _made(self, x: Any) -> Any:
        if isinstance(x, TensorBase):
            return self._change(x)
        if isinstance(x, FunctionType):
            return self._function(x)
        if isinstance(x, MethodType):
            return MethodType(self.of(x.__func__), self.of(x.__self__))
        if type(x) is partial:
            return partial(self.of(x.func), *self.of(x.args), **self.of(x.keywords))
        if children_of(x) is None:
            kind: Any = type(x)
            return self._object(x) if not isinstance(x, type) and _holds_values(kind) else x
        leaves, structure = flatten(x, whole=True)
        copies = [self.of(leaf) for leaf in leaves]
        return x if all(map(is_, copies, leaves)) else structure.unflatten(copies)

    def _object(self, x: Any) -> Any:
        """Return an object with the same attributes, or copies of them; the object itself if none changes."""
        copies = {name: self.of(value) for name, value in vars(x).items()}
        if all(map(is_, copies.values(), vars(x).values())):
            return x
        new = object.__new__(type(x))
        vars(new).update(copies)
        return new

    def _function(self, f: FunctionType) -> FunctionType:
        space = self._variables(f)
        if not (f.__closure__ or f.__defaults__ or f.__kwdefaults__) and space is f.__globals__:
            return f
        code, cells = f.__code__, f.__closure__ or ()
        assigned = _assigned(code)
        closure = [cell if name in assigned else CellType() for name, cell in zip(code.co_freevars, cells, strict=True)]
        copy = FunctionType(code, space, f.__name__, self.of(f.__defaults__), tuple(closure))
        copy.__kwdefaults__, copy.__qualname__ = self.of(f.__kwdefaults__), f.__qualname__
        vars(copy).update(vars(f))
        self._known[id(f)] = (f, copy)  # for a function that calls itself
        for new, cell in zip(closure, cells, strict=True):
            if new is not cell:
                try:
                    new.cell_contents = self.of(cell.cell_contents)
                except ValueError:  # a variable that has no value yet
                    continue
        return copy

    def _variables(self, f: FunctionType) -> dict[str, Any]:
        """Return the variables of a function's module, which are another dict if any of them changes."""
        names, space = names_in(f.__code__), f.__globals__
        changed: dict[str, Any] = {}
        for name in names.variables - names.assigned:
            x = space.get(name)
            if isinstance(x, TensorBase) or is_module(x):
                copy = self.of(x)
                if copy is not x:
                    changed[name] = copy
        return {**space, **changed} if changed else space


@lru_cache(maxsize=4096)
def _assigned(code: CodeType) -> frozenset[str]:
    """Return the variables of enclosing functions that code assigns or deletes."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inside = [_assigned(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(names).union(*inside)


@lru_cache(maxsize=4096)
def _holds_values(cls: Any) -> bool:
    """Return whether an object of a class may be another one: of a frozen dataclass, or a user's without changes."""
    if not cls.__dictoffset__ or cls.__new__ is not object.__new__:
        return False
    if getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        return True
    if cls.__module__.partition(".")[0] in OWN_PACKAGES:
        return False
    methods = [f for base in cls.__mro__ for name, f in vars(base).items() if name != "__init__"]
    return not any(
        step.opname in ("STORE_ATTR", "DELETE_ATTR")
        for f in methods
        if isinstance(f, FunctionType)
        for step in dis.get_instructions(f)
    )
