"""The mode of recording: what a context records, and who observes it; and the user's lines that a node remembers.
`burnpy.autodiff.modes` switches the mode.

The mode is stored in one `ContextVar`, read once for each recorded operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from burnpy.autodiff.engine import propagate

if TYPE_CHECKING:
    from burnpy.autodiff.engine import Ready, Sums
    from burnpy.autodiff.graph import Leaf, Node
    from burnpy.backend.backend import Backend
    from burnpy.backend.call_origin import Stack
    from burnpy.backend.primitives import Float
    from burnpy.backend.rules import Vjp

next_level = count(1).__next__
"""Return the number of the next level; numbers ascend in order of creation, and singleton devices are level 0."""


def new_level(kind: Any, base: Any, api: str) -> Any:
    """Return a level on a device: an `Autodiff` or a `Forward` that is not a singleton. Unlike
    ``Autodiff[Balanced[NumPy]]``, whose inner device is NumPy, a level on ``Balanced[NumPy]`` lifts its tensors.
    Messages name it by ``api``, the function that makes it."""
    level = kind.unregistered(base)
    level.inner, level.api = base, api
    level.level = next_level()
    return level


Observer: TypeAlias = Callable[[Any, Any], None]
"""``(device, node)``, called for every node that is recorded."""
ValueObserver: TypeAlias = Callable[[Any, Any], None]
"""``(device, value)``, called after the observers with the inner primitive that the recorded operation computed."""
Interceptor: TypeAlias = Callable[[Any, Any, Callable[..., Any], Any, tuple[Any, ...]], Any]
"""``(inner, node, vjp, grad, kept)``: called in place of ``vjp(inner, grad, *kept)``, and returns what that returns."""


class Mode(NamedTuple):
    """The state of recording in a context: whether operations are recorded, and the observers and interceptors."""

    recording: bool = True
    inference: bool = False
    until: int = 0  #: the levels below this number are silenced; newer ones record
    observers: tuple[Observer, ...] = ()  #: the innermost first
    interceptors: tuple[Interceptor, ...] = ()
    value_observers: tuple[ValueObserver, ...] = ()
    no_saving: str | None = None  #: the reason why `saved_tensors_hooks` are refused here, if they are

    def silences(self, level: int) -> bool:
        """Return whether a device of this level records nothing."""
        return not self.recording and level < self.until

    def record(self, device: Any, node: Any, value: Any = None) -> None:
        """Call the observers with a node that was just recorded, and those of values with its value, if any."""
        for observe in self.observers:
            observe(device, node)
        if value is not None:
            for observe in self.value_observers:
                observe(device, value)


DEFAULT_MODE = Mode()

mode_of_context: ContextVar[Mode | None] = ContextVar("burnpy_mode", default=None)
current_mode = mode_of_context.get


def set_mode(mode: Mode | None) -> None:
    """Set the mode of this context. The default mode is stored as None, which costs nothing to check."""
    mode_of_context.set(None if mode == DEFAULT_MODE else mode)


@contextmanager
def using(**changes: Any) -> Generator[None, None, None]:
    """Change some fields of the current mode for the duration of a block."""
    before = current_mode()
    set_mode((before or DEFAULT_MODE)._replace(**changes))
    try:
        yield
    finally:
        set_mode(before)


def observing(observer: Observer) -> AbstractContextManager[None]:
    """Return a context manager that calls ``observer`` with every recorded node, before the existing observers."""
    return using(observers=(observer, *(current_mode() or DEFAULT_MODE).observers))


def through(interceptors: tuple[Interceptor, ...]) -> Interceptor | None:
    """Return one interceptor that calls several, the last one outermost; None without any."""
    if not interceptors:
        return None

    def intercept(inner: Backend, node: Node, vjp: Vjp, grad: Float, kept: tuple[Any, ...]) -> Any:
        for each in interceptors:
            vjp = partial(_call_interceptor, each, node, vjp)
        return vjp(inner, grad, *kept)

    return intercept


def _call_interceptor(intercept: Interceptor, node: Node, vjp: Vjp, inner: Backend, grad: Float, *kept: Any) -> Any:
    return intercept(inner, node, vjp, grad, kept)


def propagate_intercepted(
    inner: Backend,
    roots: Iterable[tuple[Node | Leaf, Float]],
    *,
    retain_graph: bool,
    targets: Collection[Node | Leaf] | None,
    unused: Callable[[Collection[Node | Leaf]], None] | None = None,
    interceptors: tuple[Interceptor, ...],
    ready: Ready | None = None,
    sums: Sums | None = None,
) -> dict[Any, Float]:
    """Run `propagate` and set the rule context for inner devices that want it. Watchers with a method ``finish(inner,
    gradients)`` are called with the result."""
    from burnpy.backend.call_origin import OpContext, op_context

    def tell(inner: Backend, node: Node, vjp: Vjp, grad: Float, kept: tuple[Any, ...]) -> Any:
        """Set the rule context, which stays set while the engine accumulates the vjp's result."""
        op_context.set(OpContext("backward", node.operation, stack_of(node)))
        return vjp(inner, grad, *kept)

    before = op_context.set(OpContext("backward")) if inner.wants_rule_context() else None
    try:
        gradients = propagate(
            inner,
            roots,
            retain_graph=retain_graph,
            targets=targets,
            unused=unused,
            intercept=through(
                interceptors if before is None else (tell, *interceptors)
            ),  # innermost: the rule's own operations
            ready=ready,
            sums=sums,
        )
    finally:
        if before is not None:
            op_context.reset(before)
    for interceptor in interceptors:
        finish: Callable[..., None] | None = getattr(interceptor, "finish", None)
        if finish is not None:
            finish(inner, gradients)
    return gradients


STACK = "stack"
"""The metadata key under which `track_lines` and `detect_anomaly` store the user's lines that recorded a node."""


def stack_of(node: Any) -> Stack:
    """Return the user's lines that recorded a node; empty if they were not tracked."""
    metadata: dict[str, Any] = getattr(node, "metadata", {})
    stack: Stack = metadata.get(STACK, ())
    return stack


def note(node: Any) -> dict[str, Any]:
    """Return the metadata dictionary of a node, created at first use."""
    try:
        metadata: dict[str, Any] = node.metadata
    except AttributeError:
        metadata = node.metadata = {}
    return metadata
