"""`NestedCall`: a function that is called once, on devices that record it as a loop's body or a branch.

The function gets tensors of a device like the one outside, with the same levels; each differentiates by the same values
as the level outside. Tensors that the function closes over become inputs of its recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.forward_methods import Dual
from burnpy.autodiff.graph import Leaf, Node, next_seq
from burnpy.autodiff.recording import new_level
from burnpy.backend.decorators.recorded import Recorded
from burnpy.backend.errors import RecordingError
from burnpy.backend.plans.recording import Ref, Traced, refs_in
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.generator import recorders
from burnpy.tensor.levels import levels_of, lifted_to, raised
from burnpy.tensor.tensor_base import TensorBase, new_tensor

_NOTHING: Mapping[int, Any] = MappingProxyType({})


class UnsupportedLevelsError(Exception):
    """A function is differentiated on several levels, or on one of another kind: its steps are recorded one by one."""


class Entered:
    """A value that entered a nested recording, and its derivative on the level that differentiates it."""

    __slots__ = ("inside", "leaf", "node", "outside", "tangent", "tangent_outside")

    def __init__(self, outside: Traced, inside: Traced, node: Any = None) -> None:
        self.outside, self.inside = outside, inside
        self.node = node  #: the node outside, if it is tracked there
        self.leaf: Any = None  #: the leaf in the nested recording, if a level differentiates it in reverse
        self.tangent_outside: Traced | None = None
        self.tangent: Traced | None = None  #: the tangent, if a level differentiates it in forward mode


class Left:
    """A result of a nested recording, with its graph or tangent for the level that differentiates."""

    __slots__ = ("cls", "ref", "root", "tangent")

    def __init__(self, cls: type[TensorBase[Any]], ref: Ref) -> None:
        self.cls, self.ref = cls, ref
        self.root: Any = None  #: the tracked primitive, if it depends on a leaf
        self.tangent: Ref | None = None


class Step(Protocol):
    """One recorded step of a loop."""

    call: NestedCall
    entered: list[Entered]  #: the carried values first

    @property
    def carry(self) -> list[Left]:
        """The carried values after the step."""
        ...


S = TypeVar("S", bound=Step)


def recorder_of(device: Any) -> Any:
    """Return the device that records beneath some levels; None if there is none."""
    while device is not None and device.__class__ is not Recorded:
        device = getattr(device, "inner", None)
    return device


class NestedCall:
    """A nested recording of one call of a function.

    Args:
        device: the device outside, on which the function's arguments are.
        level: the level that differentiates, if it is known that one does.

    Raises:
        UnsupportedLevelsError: a level of the device cannot see the nested recording as one operation.
    """

    def __init__(self, device: Any, level: Any = None) -> None:
        self.outside = device
        self.outer: Any = recorder_of(device)  #: the recorder outside
        self.recorder: Any = self.outer.body()
        self.entered: list[Entered] = []
        self._leaves: dict[Node | Leaf, Leaf] = {}  # those of `_leaf_of`
        self._computed: list[Entered] = []  # values that a branch computes of captured ones, on the levels outside
        self.active: set[Any] = set() if level is None else {level}
        self._inside: dict[Any, Any] = self.recorder.inside
        self._began = next_seq()  # nodes that the function makes are younger
        self._captured: dict[int, tuple[Any, Any]] = {}
        self.device = self._nested(device)

    @property
    def level(self) -> Any:
        """The level that differentiates; None if none does.

        Raises:
            UnsupportedLevelsError: several do.
        """
        if len(self.active) > 1:
            raise UnsupportedLevelsError
        return next(iter(self.active), None)

    def inside(self, device: Any) -> Any:
        """Return the device of the nested recording that stands for one outside."""
        return self._inside[device]

    def _nested(self, device: Any) -> Any:
        if device is self.outer:
            new = self.recorder
        elif device.level and isinstance(device, (Autodiff, Forward)):
            new = new_level(type(device), self._nested(device.inner), device.api)
        elif isinstance(device, Autodiff) and device.computing is not device.inner:
            raise UnsupportedLevelsError  # a strategy plans what each operation saves
        elif device.differentiates and not isinstance(device, (Autodiff, Forward)):
            raise UnsupportedLevelsError
        else:
            cls, arguments = device.__reduce__()
            new = cls.unregistered(self._nested(arguments[0]), *arguments[1:])
        new.stands_for, new.entry = device, self._enter
        self._inside[device] = new
        return new

    def tensor(self, x: Any, sliced: bool = False, forced: bool = False) -> Any:
        """Return an argument as a tensor of the nested recording.

        Args:
            x: the argument, on the device outside.
            sliced: whether the function gets a slice of it, along the first dim.
            forced: whether the level that differentiates does so by it although it does not depend on anything yet.
        """

        def enter(value: Traced) -> Traced:
            sample = value.value
            return self.recorder.input(self.recorder.inner.slice(sample, (0,)) if sliced else sample)  # type: ignore[no-any-return]  # as declared

        if x.kind not in INEXACT:
            self.entered.append(Entered(self._traced(x._primitive), inside := enter(self._traced(x._primitive))))
            return new_tensor(type(x), self.device, inside)
        primitive = self._lifted(self.outside, x._primitive, enter, forced)
        return new_tensor(type(x), self.device, primitive)

    def _enter(self, device: Any, primitive: Any) -> Any:
        """Return a float primitive of a device outside, over which the function closes, on the nested one."""
        known = self._captured.get(id(primitive))
        if known is None or known[0] is not primitive:
            known = self._captured[id(primitive)] = primitive, self._lifted(device, primitive, self.recorder.capture)
        return known[1]

    def _traced(self, primitive: Any) -> Traced:
        """Return a primitive as one of the recorder outside, unless the nested one computes it."""
        if primitive.__class__ is not Traced:
            return self.outer._constant(primitive)  # type: ignore[no-any-return]  # as declared
        if primitive.recording is self.outer.recording or self.recorder.computes(primitive):
            return primitive
        return self.outer.capture(primitive)  # type: ignore[no-any-return]  # as declared

    def _lifted(self, device: Any, primitive: Any, enter: Callable[[Traced], Traced], forced: bool = False) -> Any:
        """Return a primitive on the nested device, as a leaf or with a tangent where the level outside has one."""
        chain: list[tuple[Any, Any]] = []
        while device.differentiates:
            chain.append((device, primitive))
            primitive, device = device.lower(primitive), device.inner
        outside = self._traced(primitive)
        inside: Any = enter(outside)
        entered = Entered(outside, inside)
        (self._computed if inside is outside else self.entered).append(entered)
        known = next(iter(self.active), None) if forced else None
        for level, own in reversed(chain):
            new = self._inside[level].lift(inside)
            mode = level.mode()
            silent = mode is not None and mode.silences(level.level)
            if isinstance(level, Autodiff):
                if level is known or (own.node is not None and not silent):
                    self.active.add(level)
                    entered.node = own.node
                    entered.leaf = new.node = Leaf(new.value)
            elif level is known or (own.tangent is not None and not silent):
                self.active.add(level)
                entered.tangent_outside = self._tangent(level, own)
                entered.tangent = enter(entered.tangent_outside)
                new = Dual(inside, lifted_to(self._inside[level].inner, entered.tangent))
            inside = new
        return inside

    def _tangent(self, level: Any, dual: Any) -> Traced:
        """Return the tangent of a dual as a primitive of the recorder outside."""
        if dual.tangent is None:
            return self.outer.full(dual.shape, 0.0, dual.dtype)  # type: ignore[no-any-return]  # as declared
        return self._traced(self.lowered(level.inner, dual.tangent))

    def lowered(self, device: Any, primitive: Any) -> Any:
        """Return the primitive beneath all levels of a device; none may track it."""
        while device.differentiates:
            if getattr(primitive, "node", None) is not None or getattr(primitive, "tangent", None) is not None:
                raise UnsupportedLevelsError
            primitive, device = device.lower(primitive), device.inner
        return primitive

    def call(self, f: Callable[..., Sequence[Any]], arguments: Sequence[Any]) -> list[Left]:
        """Call the function, and return what it leaves."""
        token = recorders.set((*recorders.get(), self.recorder))
        try:
            results = f(*arguments)
        finally:
            recorders.reset(token)
        left = [self._left(x) for x in results]
        if self.level is None and any(out.root is not None for out in left):
            raise RecordingError(
                "a loop or branch returned a tensor that is still to be differentiated; call backward() inside of it "
                "and return the gradients, or return x.detach()"
            )
        return left

    def _left(self, x: Any) -> Left:
        """Return a result as the recording and the level know it."""
        primitive = raised(x, self.device)._primitive
        root = tangent = None
        if x.kind in INEXACT:
            device = self.device
            while device.differentiates:
                if isinstance(device, Autodiff):
                    if primitive.node is not None:
                        root = primitive
                elif primitive.tangent is not None:
                    tangent = self.lowered(device.inner, primitive.tangent)
                primitive, device = device.lower(primitive), device.inner
        left = Left(type(x), self.ref(primitive))
        left.root = root
        left.tangent = None if tangent is None else self.ref(tangent)
        return left

    def cotangent(self, like: Ref | Traced) -> Traced:
        """Return an input of the recording for the gradient of a value."""
        return self.recorder.input(self.recorder.inner.full(tuple(like.shape), 1.0, like.dtype))  # type: ignore[no-any-return]  # as declared

    def captured_gradients(self, level: Any, by_leaf: Mapping[Any, Any], arguments: int) -> dict[Node | Leaf, Traced]:
        """Return the gradients of nodes outside that a branch depends on through captured values.

        Args:
            level: the level outside that differentiates.
            by_leaf: the gradients of the leaves of the nested recording.
            arguments: the number of values that entered as arguments.
        """
        inner = self.inside(level).inner
        captured = [e for e in (*self.entered[arguments:], *self._computed) if e.leaf in by_leaf]
        return self._by_older(level, [(e.node, self.lowered(inner, by_leaf[e.leaf])) for e in captured])

    def _by_older(self, level: Any, gradients: Iterable[tuple[Node | Leaf, Traced]]) -> dict[Node | Leaf, Traced]:
        """Return the gradients of an outer level's nodes that are older than this call, from gradients of any of its
        nodes.

        The branch computes with captured values alone on that level, in its graph: the pass goes on there. Where the
        level is of a nested recording itself, such values are leaves that stand for nodes of the next level outside.
        """
        found: dict[Node | Leaf, Traced] = {}
        young: list[tuple[Entered, Any]] = []

        def add(node: Node | Leaf, gradient: Traced) -> None:
            found[node] = self.recorder.add(found[node], gradient) if node in found else gradient

        for node, gradient in gradients:
            if isinstance(node, Node) and node.seq > self._began:
                young.append((Entered(gradient, gradient, node), lifted_to(level.inner, gradient)))
            else:
                add(node, gradient)
        leaves = cut_off([e.node for e, _ in young], self._began)
        totals = level.gradients(young, retain_graph=False) if young else {}
        for node, leaf in leaves.items():
            if leaf in totals:
                add(node, self.lowered(level.inner, totals[leaf]))
        around = getattr(level.entry, "__self__", None)
        if isinstance(around, NestedCall):
            mine = {e.leaf: e.node for e in around._computed if e.inside.recording is self.recorder.recording}
            further = [(mine[node], found.pop(node)) for node in [*found] if node in mine]
            for node, gradient in self._by_older(level.stands_for, further).items() if further else ():
                add(around._leaf_of(node, gradient), gradient)
        return found

    def _leaf_of(self, node: Node | Leaf, like: Traced) -> Leaf:
        """Return a leaf of the nested recording that stands for a node outside, whose value is like another."""
        leaf = self._leaves.get(node)
        if leaf is None:
            entered = Entered(like, like, node)
            leaf = entered.leaf = self._leaves[node] = Leaf(like)
            self.entered.append(entered)
        return leaf

    def zeros(self, like: Ref | Traced) -> Ref:
        """Return a value of the nested recording that is 0, of the shape and dtype of another."""
        return self.recorder.full(tuple(like.shape), 0.0, like.dtype).ref  # type: ignore[no-any-return]  # a value

    def ref(self, primitive: Any) -> Ref:
        """Return the value of the nested recording that a primitive is."""
        return self.recorder._split(primitive)[1]  # type: ignore[no-any-return]  # a value of the recording


def cut_off(nodes: Iterable[Node], since: int) -> dict[Node | Leaf, Leaf]:
    """Put leaves in place of the parents of nodes that are not younger than a number; return the leaf of each. Nodes
    are those given and all that are younger among those that they depend on."""
    leaves: dict[Node | Leaf, Leaf] = {}
    stack, seen = [*nodes], set[Node]()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for name in ("parent0", "parent1"):
            parent = getattr(node, name)
            if isinstance(parent, Node) and parent.seq > since:
                stack.append(parent)
            elif parent is not None:
                setattr(node, name, leaves.setdefault(parent, Leaf(None)))
    return leaves


def beneath(inner: Any, x: Any, operation: str) -> Traced:
    """Return a gradient or saved value of a device as a primitive of its recorder."""
    device = inner
    while x.__class__ is not Traced:
        if getattr(x, "node", None) is not None or getattr(x, "tangent", None) is not None:
            raise RecordingError(
                f"a compiled function differentiates the gradient of a {operation}() again; differentiate the whole "
                "function twice, as func.hessian does, or write the loop in Python"
            )
        if device.records:  # a cotangent from outside of the recording
            return device._constant(x)  # type: ignore[no-any-return]  # of this class
        x, device = device.lower(x), device.inner
    return x


def outputs_on(
    device: Any, results: Sequence[Any], left: Sequence[Left], level: Any = None, on_level: Mapping[int, Any] = _NOTHING
) -> list[TensorBase[Any]]:
    """Return results of the recorder as tensors of the device outside.

    Args:
        device: the device.
        results: a primitive of the recorder for each of ``left``.
        left: what the nested recording left.
        level: the level that differentiates, if one does.
        on_level: by number, the tangents of results on it, in forward mode, or their tracked primitives.
    """
    levels = levels_of(device)

    def lifted(k: int, x: Any) -> Any:
        for each in reversed(levels):
            if each is level and k in on_level:
                x = Dual(x, on_level[k]) if isinstance(level, Forward) else on_level[k]
            else:
                x = each.lift(x)
        return x

    return [
        new_tensor(out.cls, device, lifted(k, x) if out.cls.kind in INEXACT else x)
        for k, (x, out) in enumerate(zip(results, left, strict=True))
    ]


def kept_on(level: Any, values: Iterable[Any]) -> list[Any]:
    """Return values of the recorder as a node on a level keeps them: floats as constants of the device beneath."""
    return [x if x.dtype.kind not in "fV" else lifted_to(level.inner, x) for x in values]


def gradients_beneath(
    inner: Any, grads: Sequence[Any], specs: Sequence[tuple[Any, Any]], operation: str
) -> list[Traced]:
    """Return gradients as primitives of the recorder beneath a device, with zeros of a shape and dtype for None."""
    recorder = recorder_of(inner)
    return [
        recorder.full(tuple(shape), 0.0, dtype) if grad is None else beneath(inner, grad, operation)
        for grad, (shape, dtype) in zip(grads, specs, strict=True)
    ]


def tangent_of(entered: Entered) -> Traced:
    """Return the tangent of a value that has one."""
    assert entered.tangent is not None
    return entered.tangent


def newly_active(call: NestedCall, entered: Iterable[Entered], left: Iterable[Left]) -> set[int]:
    """Return the numbers of the carried values that this step makes tracked, or gives a tangent."""
    return {
        k
        for k, (e, out) in enumerate(zip(entered, left, strict=False))
        if call.level is not None and (out.root is not None or out.tangent is not None)
        and e.leaf is None and e.tangent is None
    }  # fmt: skip


def settled(record: Callable[[set[int], Any], S]) -> S:
    """Record a step of a loop again until it makes no further carried value tracked.

    Args:
        record: takes the numbers of the tracked values, and the level that differentiates them, if any.
    """
    forced: set[int] = set()
    level = None
    while True:
        step = record(forced, level)
        more = newly_active(step.call, step.entered, step.carry) - forced
        if not more:
            return step
        forced, level = forced | more, step.call.level


def uses_of(nodes: Iterable[Any], outputs: Iterable[Ref]) -> set[int]:
    """Return the numbers of the values that nodes use, or that are outputs."""
    return {ref.number for node in nodes for ref in refs_in(node.args)} | {ref.number for ref in outputs}
