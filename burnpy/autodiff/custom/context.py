"""`Context`: the ``ctx`` of a `Function`, which carries what forward() learned to backward() and jvp()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, final

from burnpy.autodiff.custom.arguments import brought, tensors
from burnpy.backend.errors import ArgumentError, DeviceError, GraphError, ImmutableError, KindError
from burnpy.tensor.base import TensorBase

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


@final
class Context:
    """What forward() leaves for backward() and jvp(): saved tensors, and any attributes that are set on it.

    There is one for each call of ``apply``, and every pass through that call, on every level of the device, sees its
    attributes, and its saved tensors as they are on that level. Only ``saved_tensors`` are freed with the graph; keep
    tensors nowhere else.
    """

    __slots__ = ("__dict__", "_device", "_marked", "_materialize", "_name", "_phase", "_saved", "needs_input_grad")

    needs_input_grad: tuple[bool, ...]
    """For each argument whether a gradient is asked of it; in jvp(), whether it has a tangent."""

    def __init__(self, name: str, phase: str, needs: tuple[bool, ...], device: Any, saved: Any = None) -> None:
        """Made by `Function`. ``phase``: forward, backward or jvp; ``saved``: then, what forward() saved."""
        self._name = name
        self._phase = phase
        self._device = device
        self._saved: Any = saved
        self._marked: tuple[TensorBase[Any], ...] = ()
        self._materialize = True
        self.needs_input_grad = needs

    def save_for_backward(self, *tensors: TensorBase[Any] | None) -> None:
        """Keep tensors for backward() and jvp(), once in forward().

        Arguments and results of forward() are kept as such, and second derivatives go through them. Any other tensor
        is a constant to them: return it as a further result where it is not.

        Raises:
            KindError: something is no tensor; set it as an attribute, as in ``ctx.scale = 3``.
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
            found: Any = x  # of whatever class it may be
            if found is not None and not isinstance(found, TensorBase):
                raise KindError(
                    f"ctx.save_for_backward() of {self._name} keeps tensors, and argument {k} is {found!r:.80}; "
                    "keep other values as attributes, as in ctx.scale = 3"
                )
            kept = found if found is None else brought(found, self._device)
            if kept is not None and self._device is not None and kept.device is not self._device:
                raise DeviceError(
                    f"ctx.save_for_backward() of {self._name} was given, as argument {k}, a tensor on {kept.device}, "
                    f"and forward() computes on {self._device}; save what was made of the arguments"
                )
            saved.append(kept)
        self._saved = tuple(saved)

    @property
    def saved_tensors(self) -> tuple[Tensor[Any], ...]:
        """What `save_for_backward` kept, on the device of the gradients; in backward() and jvp() only.

        To type checkers all are float tensors; for others say so, as in ``index: Any = ctx.saved_tensors[0]``.

        Raises:
            GraphError: this is neither, or the call is over.
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
        """Say in forward() which results have no gradient; int and bool ones have none anyway.

        backward() is given zeros for them, or None after ``set_materialize_grads(False)``; jvp() returns None.

        Raises:
            GraphError: this is not in forward().
        """
        self._refuse_unless_forward("mark_non_differentiable")
        self._marked = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients and tangents that are not there come as zeros (as they do unless told otherwise) or None.

        Raises:
            GraphError: this is not in forward().
        """
        self._refuse_unless_forward("set_materialize_grads")
        self._materialize = bool(value)

    def mark_dirty(self, *tensors: object) -> NoReturn:
        """Always an error: tensors cannot be changed.

        Raises:
            ImmutableError: always.
        """
        raise ImmutableError(
            f"ctx.mark_dirty() was called in {self._name}; no argument can be changed in place: return a new tensor"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by Python itself, as when it copies
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

    def _close(self) -> None:  # pyright: ignore[reportUnusedFunction]  # `calls` closes what it opened
        self._phase, self._saved = "over", None
