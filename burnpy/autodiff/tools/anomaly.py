"""`detect_anomaly` finds the operation whose backward produced the first NaN; `track_lines` notes who recorded it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from burnpy.autodiff.graph import Leaf, Node, Relay, is_array, mapped, with_relays
from burnpy.autodiff.joint_nodes import hand_on, pick_gradient
from burnpy.autodiff.modes import ModeSetting, ModeSwitch, flag
from burnpy.autodiff.recording import STACK, Mode, current_mode, note, observing, stack_of
from burnpy.autodiff.tools.graph_views import edge_kind, unwrapped
from burnpy.autodiff.tools.saved_tensors import array_of
from burnpy.backend.backend import Backend
from burnpy.backend.call_origin import Stack, format_lines, lines_of, user_stack
from burnpy.backend.decorators.checked import NonFinite, beneath_levels, is_float, non_finite_in
from burnpy.backend.errors import AnomalyError
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.call_errors import explained


class detect_anomaly(ModeSwitch):  # noqa: N801  # PyTorch's name; it is used like a function
    """A context manager and decorator that raises at the first NaN of a backward pass.

    The error names the operation whose backward produced it and the argument whose gradient has it. If the forward pass
    ran in the block too, it names the user's lines that recorded the operation. NaN that was already in the incoming
    gradient is not attributed to the operation that receives it. Each rule's result is checked, which waits for the
    device: use this for debugging. For NaN in forward passes, and inside of rules, use `burnpy.backend.Checked`.

    Args:
        check_nan: whether NaN is an error. False only tracks the lines.
        check_inf: whether infinity is an error too; PyTorch has no such option.

    Raises:
        AnomalyError: in the block, from any backward pass.

    >>> x = Tensor[Autodiff[NumPy]].from_data([0.0, 1.0]).require_grad()
    >>> with detect_anomaly():
    ...     y = x.sqrt() * x.detach()
    ...     y.sum().backward()
    Traceback (most recent call last):
        ...
    burnpy.backend.errors.AnomalyError: the backward of sqrt made NaN at index (0,), in the gradient of its argument x,
    of shape (2,) and dtype float32; the gradient that came in had none, and of the arrays that it kept one of
    shape (2,) is finite and has zeros.
    The forward pass recorded sqrt here:
    ...
    """

    def __init__(self, check_nan: bool = True, check_inf: bool = False) -> None:
        super().__init__("detect_anomaly")
        self._detector = Detector("detect_anomaly", check_nan, check_inf)

    def _copy(self) -> Self:
        return type(self)(self._detector.check_nan, self._detector.check_inf)

    def _mode(self) -> Mode:
        return _with(self._detector)


class set_detect_anomaly(ModeSetting):  # noqa: N801  # as above
    """Turn `detect_anomaly` on or off by a flag: as a function at once, as a context manager until the block ends.

    >>> with set_detect_anomaly(True):
    ...     is_anomaly_enabled()
    True
    >>> is_anomaly_enabled()
    False
    """

    def __init__(self, mode: bool, check_nan: bool = True, check_inf: bool = False) -> None:
        detector = Detector("set_detect_anomaly", check_nan, check_inf)
        self._detector = detector if flag("set_detect_anomaly(mode)", mode) else None
        super().__init__("set_detect_anomaly")

    def _copy(self) -> Self:
        detector = self._detector
        return type(self)(detector is not None, *(() if detector is None else (detector.check_nan, detector.check_inf)))

    def _mode(self) -> Mode:
        return _with(self._detector)


@explained
def is_anomaly_enabled() -> bool:
    """Return whether `detect_anomaly` is active here."""
    return _detector() is not None


@explained
def is_anomaly_check_nan_enabled() -> bool:
    """Return whether `detect_anomaly` is active here and NaN is an error."""
    detector = _detector()
    return detector is not None and detector.check_nan


@explained
def track_lines(depth: int | None = 1) -> AbstractContextManager[None]:
    """Return a context manager in which each recorded node stores the line of user code that recorded it.

    `memory_report`, drawings and ``grad_fn.line`` show it, `Profiled` attributes backward passes to it, and the errors
    of `Checked` name it. It doubles or triples the time of a tiny operation, and costs nothing outside of the block.

    Args:
        depth: how many of the innermost frames of the call stack to store; None for all.

    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()
    >>> with track_lines():
    ...     y = x.exp()
    >>> y.grad_fn.line.code
    'y = x.exp()'
    """

    def observer(device: Any, node: Any) -> None:
        if not stack_of(node):
            _store_lines(node, user_stack(depth))

    return observing(observer)


class Detector:
    """An interceptor that checks the result of each vjp, before it is accumulated."""

    __slots__ = ("check_inf", "check_nan")

    def __init__(self, call: str, check_nan: bool, check_inf: bool) -> None:
        self.check_nan = flag(f"{call}(check_nan)", check_nan)
        self.check_inf = flag(f"{call}(check_inf)", check_inf)

    def __call__(self, inner: Backend, node: Node, vjp: Any, grad: Float, kept: tuple[Any, ...]) -> Any:
        """Call the vjp and check its result."""
        operation = node.operation
        for incoming in () if isinstance(node, Relay) else _floats(grad):  # a relay's was checked before it
            non_finite = self._non_finite_in(inner, incoming)
            if non_finite is not None:
                raise self._received(node, operation, non_finite, incoming)
        part = vjp(inner, grad, *kept)
        if unwrapped(vjp) not in (pick_gradient, hand_on):  # these pass on what was already checked, and saved values
            for k, result in enumerate(_floats(part)):
                non_finite = self._non_finite_in(inner, result)
                if non_finite is not None:
                    raise self._made(inner, node, operation, vjp, k, non_finite, result, kept)
        return part

    def finish(self, inner: Backend, gradients: dict[Any, Any]) -> None:
        """Check the accumulated gradients, whose addends were all checked."""
        for node, total in gradients.items():
            for grad in _floats(total):
                non_finite = self._non_finite_in(inner, grad)
                if non_finite is not None:
                    what = "a leaf" if isinstance(node, Leaf) else f"the result of {node.operation}"
                    raise AnomalyError(
                        f"the gradient of {what}, of shape {grad.shape}, holds {non_finite}, which no operation made: "
                        "it was in the gradient that backward() started from, or is the sum of infinities of opposite "
                        "sign; detect_anomaly(check_inf=True) finds those"
                    )

    def _non_finite_in(self, inner: Backend, x: Float) -> NonFinite | None:
        return non_finite_in(inner, x, self.check_nan, self.check_inf)

    def _received(self, node: Node, operation: str, non_finite: NonFinite, grad: Float) -> AnomalyError:
        return AnomalyError(
            f"the gradient that came to the backward of {operation}, of shape {grad.shape}, held {non_finite} already, "
            f"and {operation} did not make it: it was in the gradient that backward() started from, or is the sum of "
            f"infinities of opposite sign, which detect_anomaly(check_inf=True) finds.{_origin(node, operation)}"
        )

    def _made(
        self,
        inner: Backend,
        node: Node,
        operation: str,
        vjp: Any,
        k: int,
        non_finite: NonFinite,
        part: Float,
        kept: Any,
    ) -> AnomalyError:
        kind = edge_kind(node, vjp)
        names = () if kind is None or kind.argument is None else (kind.argument,)
        whose = f"argument {names[k]}" if k < len(names) else f"tracked argument {k}"
        arrays = [mapped(array_of, x) for x in kept if is_array(x) and is_float(x)]
        held = [f"one of shape {x.shape} {self._state(inner, x)}" for x in arrays]
        return AnomalyError(
            f"the backward of {operation} made {non_finite}, in the gradient of its {whose}, of shape {part.shape} and "
            f"dtype {part.dtype}; the gradient that came in had none"
            f"{', and of the arrays that it kept ' if held else ''}{', '.join(held)}.{_origin(node, operation)}"
        )

    def _state(self, inner: Backend, x: Float) -> str:
        non_finite = non_finite_in(inner, x, True, True)
        if non_finite is not None:
            return f"holds {non_finite}"
        device, array = beneath_levels(inner, x)
        zeros = device.discrete.to_numpy(device.eq(array, 0.0)).any()
        return "is finite and has zeros" if zeros else "is finite"


def _floats(part: Any) -> list[Float]:
    """Return the float primitives in an argument or result of a vjp: one, several, or those of a `PartialGrad`."""
    if isinstance(part, PartialGrad):
        part = part.arguments
    members = part if isinstance(part, (list, tuple)) else (part,)
    return [x for x in members if is_array(x) and is_float(x)]


def _origin(node: Node, operation: str) -> str:
    stack = stack_of(node)
    if stack:
        return f"\nThe forward pass recorded {operation} here:\n{format_lines(lines_of(stack))}"
    return " To see where the forward pass recorded it, run the forward pass inside of detect_anomaly() too"


def _store_lines(node: Any, stack: Stack) -> None:
    """Store the user's lines that recorded a node in it and in its relays, whose vjps are its own."""
    for part in with_relays(node):
        note(part)[STACK] = stack


def _noting(device: Any, node: Any) -> None:
    """Observe a recorded node: store all lines, in place of fewer that `track_lines` stored."""
    _store_lines(node, user_stack())


def _detector() -> Detector | None:
    mode = current_mode()
    interceptors = () if mode is None else mode.interceptors
    return next((interceptor for interceptor in interceptors if isinstance(interceptor, Detector)), None)


def _with(detector: Detector | None) -> Mode:
    """Return the current mode with this detector in place of any other."""
    mode = current_mode() or Mode()
    interceptors: tuple[Any, ...] = tuple(w for w in mode.interceptors if not isinstance(w, Detector))
    observers = tuple(o for o in mode.observers if o is not _noting)
    if detector is not None:
        interceptors, observers = (detector, *interceptors), (*observers, _noting)
    return mode._replace(interceptors=interceptors, observers=observers)
