"""`compiled`: a function that is recorded once for each kind of arguments, planned, and replayed."""

from __future__ import annotations

import functools
import sys
import warnings
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from inspect import Parameter
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, overload

from burnpy.autodiff.recording import current_mode
from burnpy.backend.errors import ArgumentError, KindError, RecordingError
from burnpy.backend.functions import signature
from burnpy.backend.plans.plan import PlanExplanation
from burnpy.func.compiling.captured import captured
from burnpy.func.compiling.guards import guard_of
from burnpy.func.compiling.names_read import Captured
from burnpy.func.compiling.recorded_calls import Call, RecordedCall, compare, recorded
from burnpy.func.pytree import Structure, describe_tree, flatten, is_registered, paths
from burnpy.tensor.call_errors import explained
from burnpy.tensor.levels import open_levels
from burnpy.tensor.tensor_base import TensorBase

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")

MANY_PLANS = 8
"""The least number of plans of one function for which it warns."""


class Compiled(Generic[P, T]):
    """A function that runs as a plan: the result of `compiled`."""

    def __init__(
        self, f: Callable[P, T], donate: tuple[str, ...], check: bool, captured: str = "guarded", max_plans: int = 64
    ) -> None:
        functools.update_wrapper(self, f)
        self._f, self._check, self._captured, self._max_plans = f, check, captured, max_plans
        self._module: Any = f if is_registered(f) else None
        self._donated = {} if not donate else _positions(f, donate)
        self._known: dict[Any, list[RecordedCall]] = {}
        self._order: dict[RecordedCall, Any] = {}  # the keys of plans, the one that was found longest ago first
        self._last: tuple[RecordedCall, Any] | None = None  # the plan of the last call, and the mode
        self._warned = False
        self._lock = allocate_lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute the function by its plan for such arguments, which the first call makes."""
        last = self._last
        if last is not None and not open_levels.get() and last[1] is current_mode():
            plan = last[0]
            given = plan.guard(args if self._module is None else (self._module, *args), kwargs)
            if given is not None and plan.captured.holds():
                return plan.replay(*given)  # type: ignore[no-any-return]  # what f returns
        call = self._call(args, kwargs)
        if open_levels.get() or call.inline:
            return self._f(*args, **kwargs)
        plan = self._plan(call)
        self._last = plan, current_mode()
        return plan.replay(call.leaves, call.values(plan.inputs, plan.plan.device))  # type: ignore[no-any-return]  # what f returns

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: Compiled[Concatenate[S, Q], T], instance: S, owner: type) -> Callable[Q, T]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the compiled method of an instance."""
        return self if instance is None else MethodType(self, instance)

    @property
    def plans(self) -> tuple[PlanExplanation, ...]:
        """The explanations of all plans, in the order in which they were made: also what each reads, and its runs."""
        return tuple([plan.explanation() for plans in list(self._known.values()) for plan in plans])

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> PlanExplanation:
        """Return what the plan for these arguments does, which is made if there is none; nothing is computed by it."""
        return self._plan(self._call(args, kwargs)).explanation()

    def clear(self) -> None:
        """Drop all plans, and free their memory."""
        self._known.clear()
        self._order.clear()
        self._last = None

    def __copy__(self) -> Self:
        """Return the function itself, as copies of functions are."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the function itself."""
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Return a function by its name, as functions are pickled, or what makes it anew; plans stay in the process."""
        named: Any = sys.modules.get(getattr(self, "__module__", ""))
        name: str = getattr(self, "__qualname__", "")
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is self:
            return name
        return Compiled, (self._f, tuple(self._donated), self._check, self._captured, self._max_plans)

    def __repr__(self) -> str:
        return f"compiled({getattr(self._f, '__qualname__', type(self._f).__name__)})"

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the call with these arguments; a call of a module gets the module itself as its first one."""
        if self._module is None:
            return Call(args, kwargs, self._donated)
        return Call((self._module, *args), kwargs, self._donated, len(flatten(self._module, whole=True)[0]))

    def _plan(self, call: Call) -> RecordedCall:
        """Return the plan for a call; recorded if there is none."""
        key = (call.key, current_mode(), call.identities)
        found = _matching(self._known.get(key, ()), call)
        if found is None:
            f: Any = _called if self._module is not None else self._f
            plan = self._recorded(f, call)
            if self._check:
                compare(f, call, plan)
            known = self._known.setdefault(key, [])
            found = _matching(known, call)  # of another thread, meanwhile
            if found is None:
                known.append(plan)
                found = plan
        with self._lock:
            self._order.pop(found, None)
            self._order[found] = key
            while len(self._order) > self._max_plans:
                oldest = next(iter(self._order))
                its_key = self._order.pop(oldest)
                plans = [other for other in self._known.pop(its_key, ()) if other is not oldest]
                if plans:
                    self._known[its_key] = plans
        self._warn(call)
        return found

    def _warn(self, call: Call) -> None:
        """Warn once if there are many plans."""
        count = len(self._order)
        if not self._warned and count > min(MANY_PLANS, self._max_plans - 1):
            self._warned = True
            warnings.warn(
                f"{self!r} has {count} plans, of at most {self._max_plans} that it keeps; "
                f"{self._changed((call.key, current_mode(), call.identities), call)}",
                RuntimeWarning,
                stacklevel=4,
            )

    def _recorded(self, f: Any, call: Call) -> RecordedCall:
        """Record a call."""
        change = None
        for _ in range(2):  # the second time with caches filled that the function keeps
            state = captured(self._f, (call.args, call.kwargs)) if self._captured == "guarded" else Captured()
            plan = recorded(f, call)
            drawn = state.drawn()
            if drawn is not None:
                raise RecordingError(
                    f"{self!r} draws random numbers by {drawn}, which would be the same in each replay; draw with a "
                    "factory on the argument's device, as Tensor.uniform(shape, device=x.device), or pass them"
                )
            change = state.changed()
            if change is None:
                plan.captured, plan.guard = state, guard_of(call, plan.inputs, plan.plan.device)
                return plan
        assert change is not None
        raise RecordingError(
            f"{self!r} changes {change[0]}, which {change[1]}, and its replays would not; pass it as an argument, and "
            "return the next value"
        )

    def _changed(self, key: Any, call: Call) -> str:
        """Return the sentence that says why the plan of a call is another one than those before."""
        for earlier in self._known[key][-2::-1]:  # the last one is the call's own
            change = earlier.captured.changed()
            if earlier.structure == call.structure and change is not None:
                return f"the last one was made because {change[0]} {change[1]}: pass it as a float or tensor argument"
        for other, plans in reversed(self._known.items()):
            differ = [k for k, (new, old) in enumerate(zip(key[0], other[0], strict=False)) if new != old]
            if other is key or len(other[0]) != len(key[0]) or not differ or not plans:
                continue
            function = self._f if self._module is None else getattr(type(self._f), "forward", type(self._f).__call__)
            path = _argument_paths(call.structure, _positional_names(function))[differ[0]]
            return (
                f"the last one was made because {path} is {_said(key[0][differ[0]])}, after "
                f"{_said(other[0][differ[0]])}: pad to few shapes, and pass numbers that change as floats or tensors"
            )
        return "arguments of other structures or settings, or other modes; pass what changes as a float or tensor"


def _matching(plans: Iterable[RecordedCall], call: Call) -> RecordedCall | None:
    """Return the plan of a call, among those of equal keys."""
    for plan in plans:
        if plan.structure == call.structure and plan.captured.holds():
            return plan
    return None


def _called(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


def _said(part: Any) -> str:
    """Return an entry of a key as a message says it."""
    if not isinstance(part, tuple):
        return f"a {part.__name__}"
    if len(part) == 5:
        return f"{part[0].__name__}{part[2]} of {part[3]} on {part[1]}"
    return f"{part[1]!r:.60}" if type(part[1]) is part[0] else f"another {part[0].__name__}"


def _positional_names(f: Any) -> list[str]:
    """Return the names of the parameters that are passed by position."""
    by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, p in signature(f).parameters.items() if p.kind in by_position]


def _argument_paths(structure: Structure, names: list[str]) -> list[str]:
    """Return an expression for each leaf of a call's arguments, given the names of the parameters."""
    by_position, by_name = structure.children
    found: list[str] = []
    for k, child in enumerate(by_position.children):
        found += paths(child, names[k] if k < len(names) else f"the argument number {k}")
    for name, child in zip(by_name.rest, by_name.children, strict=True):
        found += paths(child, name)
    return found


def _positions(f: Any, donate: tuple[str, ...]) -> dict[str, int]:
    """Return the positions of the parameters whose arguments are donated, by name."""
    names = _positional_names(f)
    wrong = [name for name in donate if name not in names]
    if wrong:
        raise ArgumentError(
            f"compiled(donate={donate!r}) names {wrong[0]!r}, which is no positional parameter of "
            f"{getattr(f, '__qualname__', f)}({', '.join(names)})"
        )
    return {name: names.index(name) for name in donate}


@overload
def compiled(
    f: Callable[P, T],
    *,
    donate: tuple[str, ...] = (),
    check: bool = False,
    captured: Literal["guarded", "constant"] = "guarded",
    max_plans: int = 64,
) -> Compiled[P, T]: ...
@overload
def compiled(
    f: None = None,
    *,
    donate: tuple[str, ...] = (),
    check: bool = False,
    captured: Literal["guarded", "constant"] = "guarded",
    max_plans: int = 64,
) -> Callable[[Callable[P, T]], Compiled[P, T]]: ...
@explained
def compiled(
    f: Any = None, *, donate: Any = (), check: bool = False, captured: Any = "guarded", max_plans: Any = 64
) -> Any:
    """Return a function that does what ``f`` does, by a plan of its operations.

    The first call with arguments of a kind runs ``f`` once to record its operations, backward passes included, and
    makes a plan: operations that follow each other become kernels, and intermediate results share memory. Later calls
    replay the plan, without the Python code of ``f``.

    Args:
        f: a function of trees of tensors: nested tuples, lists, dicts, modules and registered classes. Floats among its
            arguments are inputs of the plan, as 0-d tensors; ints, bools and strings are constants of it, so that
            other ones make another plan. So do other shapes, dtypes, devices, modes such as `no_grad`, and other
            values of the variables that ``f`` reads from outside. A module is a function of its inputs, too.
        donate: the names of parameters whose tensors the plan may overwrite, such as the model and the optimizer's
            state that the function returns anew. They cannot be used after the call.
        check: whether to record twice, the second time with other values, and to compare the recordings. A step that
            depends on values that no rule finds, such as a counter of an extension, is then an error.
        captured: "guarded" to make another plan once anything changes that ``f`` reads from outside, and to refuse what
            cannot be compared, such as an iterator; "constant" to keep for ever what the first call finds.
        max_plans: the number of plans that are kept; then the one that was used longest ago goes.

    Returns:
        A function of the same arguments and result. It has `Compiled.explain`, `Compiled.plans` and `Compiled.clear`.

    Raises:
        KindError: ``f`` is not callable.
        ArgumentError: ``donate`` names no parameter of it, or ``captured`` or ``max_plans`` is no such value.

    Within a function that `burnpy.func` differentiates, and within another compiled function, ``f`` itself is called.
    A tensor of the result is not tracked, unless it is a leaf: call ``backward()`` inside of ``f``.

    >>> from burnpy.func import compiled, grad
    >>> slope = compiled(grad(lambda x: (x.sin() * x).sum()))
    >>> x = Tensor[NumPy].from_data([0.0, 1.0])
    >>> [round(number, 4) for number in slope(x).tolist()]
    [0.0, 1.3818]
    """
    if isinstance(donate, str):
        raise ArgumentError(f"compiled(donate={donate!r}) takes a tuple of names: donate=({donate!r},)")
    if f is None:
        return functools.partial(compiled, donate=donate, check=check, captured=captured, max_plans=max_plans)
    if captured not in ("guarded", "constant"):
        raise ArgumentError(f'compiled() got captured={captured!r}; expected "guarded" or "constant"')
    if not isinstance(max_plans, int) or max_plans < 1:
        raise ArgumentError(f"compiled() got max_plans={max_plans!r}; expected an int of at least 1")
    if not callable(f) or isinstance(f, TensorBase):
        raise KindError(f"compiled() takes a function, got {describe_tree(f)}")
    return Compiled(f, tuple(donate), check, captured, max_plans)
