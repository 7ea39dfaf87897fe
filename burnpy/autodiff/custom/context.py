"""`Context`: the ``ctx`` of a `Function`, which carries saved tensors and attributes from forward() to backward() and
jvp()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, final

from burnpy.autodiff.custom.arguments import brought, tensors
from burnpy.backend.errors import ArgumentError, DeviceError, GraphError, ImmutableError, KindError
from burnpy.tensor.base import TensorBase

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@final
class Context:
    """The saved tensors and attributes that forward() passes to backward() and jvp().

    Each call of ``apply`` has its own. Every pass through that call, on every level of the device, has the same
    attributes, and the saved tensors of that level. Only ``saved_tensors`` are freed with the graph; do not store
    tensors as attributes.
    """

    __slots__ = ("__dict__", "_device", "_marked", "_materialize", "_name", "_phase", "_saved", "needs_input_grad")

    needs_input_grad: tuple[bool, ...]
    """For each argument, whether its gradient is needed; in jvp(), whether it has a tangent."""

    def __init__(self, name: str, phase: str, needs: tuple[bool, ...], device: Any, saved: Any = None) -> None:
        """Called by `Function`. ``phase``: forward, backward or jvp; ``saved``: the saved tensors in the latter two."""
        self._name = name
        self._phase = phase
        self._device = device
        self._saved: Any = saved
        self._marked: tuple[TensorBase[Any], ...] = ()
        self._materialize = True
        self.needs_input_grad = needs

    def save_for_backward(self, *tensors: TensorBase[Any] | None) -> None:
        """Save tensors for backward() and jvp(); call it at most once, in forward().

        Second derivatives flow through saved arguments and results of forward(). Any other tensor is treated as a
        constant: return it as a further result if it is not constant.

        Raises:
            KindError: an argument is no tensor; set it as an attribute, as in ``ctx.scale = 3``.
            DeviceError: a tensor is not on the device of the arguments.
            ArgumentError: tensors were saved already.
            GraphError: this is not in forward().
        """
        self._refuse_unless_forward("save_for_backward")
        if self._saved is not None:
            raise ArgumentError(
                f"ctx.save_for_backward() was called twice in {self._name}.forward(); save all tensors in one call"
            )
        saved = []
        for k, x in enumerate(tensors):
            argument: Any = x  # user code may pass any type
            if argument is not None and not isinstance(argument, TensorBase):
                raise KindError(
                    f"ctx.save_for_backward() of {self._name} keeps tensors, and argument {k} is {argument!r:.80}; "
                    "keep other values as attributes, as in ctx.scale = 3"
                )
            lifted = argument if argument is None else brought(argument, self._device)
            if lifted is not None and self._device is not None and lifted.device is not self._device:
                raise DeviceError(
                    f"ctx.save_for_backward() of {self._name} got a tensor on {lifted.device} as argument {k}, but "
                    f"forward() computes on {self._device}; save tensors computed from the arguments"
                )
            saved.append(lifted)
        self._saved = tuple(saved)

    @property
    def saved_tensors(self) -> tuple[Tensor[Any], ...]:
        """The tensors saved by `save_for_backward`, on the device of the gradients; in backward() and jvp() only.

        For type checkers all are float tensors; annotate others, as in ``index: Any = ctx.saved_tensors[0]``.

        Raises:
            GraphError: it is read outside of these methods, or after the call.
        """
        if self._phase == "forward":
            raise GraphError(
                f"ctx.saved_tensors of {self._name} are for backward() and jvp(); forward() has its arguments"
            )
        if self._phase == "over":
            raise self._over("saved_tensors")
        device, kept, values = self._saved
        return tensors(device, kept, values)

    def mark_non_differentiable(self, *outputs: TensorBase[Any]) -> None:
        """Declare in forward() which results have no gradient; int and bool results never have one.

        backward() gets zeros for them, or None after ``set_materialize_grads(False)``; jvp() must return None for them.

        Raises:
            GraphError: it is not called in forward().
        """
        self._refuse_unless_forward("mark_non_differentiable")
        self._marked = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Set in forward() whether missing gradients and tangents are passed as zeros (the default) or as None.

        Raises:
            GraphError: it is not called in forward().
        """
        self._refuse_unless_forward("set_materialize_grads")
        self._materialize = bool(value)

    def mark_dirty(self, *tensors: object) -> NoReturn:
        """Raise an error: tensors cannot be changed in place.

        Raises:
            ImmutableError: always.
        """
        raise ImmutableError(
            f"ctx.mark_dirty() was called in {self._name}; no argument can be changed in place: return a new tensor"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # looked up by Python itself, for instance when copying
            raise AttributeError(name)
        raise AttributeError(f"ctx of {self._name} has no attribute {name}; set it in forward(), as in ctx.{name} = …")

    def _refuse_unless_forward(self, method: str) -> None:
        if self._phase == "over":
            raise self._over(f"{method}()")
        if self._phase != "forward":
            raise GraphError(f"ctx.{method}() of {self._name} is for forward(), and was called in {self._phase}()")

    def _over(self, what: str) -> GraphError:
        return GraphError(
            f"ctx.{what} of {self._name} was used when the call was over, and ctx freed: it is there in "
            f"{'backward() and jvp()' if what == 'saved_tensors' else 'forward()'} only"
        )

    def _close(self) -> None:  # pyright: ignore[reportUnusedFunction]  # `calls` closes its own context
        self._phase, self._saved = "over", None
