"""`Param`: a tensor that a module learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import NotTrackedError
from burnpy.nn.variable import Variable
from burnpy.tensor.call_errors import composed

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


@composed
class Param(Variable[B]):
    """A tensor that a module learns, under an id of its own.

    On a device that differentiates ``value`` is a leaf, unless the parameter is frozen; gradients are asked for with
    it: ``grads[model.weight.value]``. One `Param` in two places of a model is one parameter, and stays one.

    Args:
        value: a tensor that nothing was computed from: a leaf, or an untracked one, which becomes a leaf.
        frozen: whether training leaves it as it is.
        id: for who restores a parameter; otherwise a new one.

    Raises:
        KindError: ``value`` is no float `Tensor`.
        NotTrackedError: ``value`` was computed from tracked tensors.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> weight = Param(Tensor[Autodiff[NumPy]].zeros((2, 3)))
    >>> weight.value.is_require_grad(), weight
    (True, Param(shape=(2, 3), dtype=float32, device=Autodiff[NumPy]))
    """

    __slots__ = ()

    word: ClassVar[str] = "parameter"

    if TYPE_CHECKING:

        def __init__(self, value: Tensor[B], *, frozen: bool = False, id: str | None = None) -> None: ...

    @property
    def value(self) -> Tensor[B]:
        """The tensor: on a device that differentiates a leaf, unless frozen."""
        return self._value  # type: ignore[no-any-return]  # a Tensor, as __init__ made sure

    def _admitted(self, value: Any) -> Any:
        if self._frozen:
            return value.detach()
        try:
            return value.require_grad()
        except NotTrackedError:
            raise NotTrackedError(
                f"a Param was given a tensor of shape {value.shape} that was computed from tracked ones, and a "
                "parameter is where a graph begins; give it value.detach()"
            ) from None
