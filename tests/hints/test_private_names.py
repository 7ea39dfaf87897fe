"""Private names of burnpy's classes, which subclasses of other code would hide without knowing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.data import Batch
from burnpy.distributions import Normal
from burnpy.errors import CallError, ModuleError
from burnpy.metrics import Metric
from burnpy.nn import Linear, Module, MultiHeadAttention
from burnpy.optim import Adam
from burnpy.train import EarlyStopping
from tests.rows import every_row


class Mixin:
    _of_kind = "cats"


class Patient(EarlyStopping):
    """A callback that hides a method in an instance."""

    def __init__(self) -> None:
        super().__init__("valid/loss")
        object.__setattr__(self, "_decisions", [])


class Rounded(Linear[Any]):
    """A layer that hides a method in a field."""

    def __init__(self) -> None:
        super().__init__(2, 2, device=NumPy)
        self._quantized: Any = True


@every_row(
    "make, error, said",
    [
        (lambda: type("Images", (Batch,), {"_size": 3}), CallError, "Images._size"),
        (lambda: type("Images", (Batch,), {"__annotations__": {"_device": "str"}}), CallError, "Images._device"),
        (lambda: type("Images", (Mixin, Batch), {}), CallError, "Mixin._of_kind"),
        (lambda: type("Hits", (Metric,), {"_names": ()}), CallError, "Hits._names"),
        (lambda: type("Momentum", (Adam,), {"_memory": None}), CallError, "Momentum._memory"),
        (lambda: type("Skewed", (Normal,), {"_cdf": 0}), ModuleError, "Skewed._cdf"),
        (lambda: type("Local", (MultiHeadAttention,), {"_heads": 4}), ModuleError, "Local._heads"),
        (lambda: type("Booked", (Linear,), {"_reserved": 4}), ModuleError, "Booked._reserved"),
        (Patient, CallError, "Patient._decisions"),
    ],
)
def test_a_private_name_of_the_base_is_refused(make: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=rf"^{said}: its base class, which is burnpy's, has a private .*; choose another"):
        make()


def test_a_private_name_of_a_layer_is_no_field() -> None:
    with pytest.raises(ModuleError, match=r"Rounded\._quantized was assigned to .* meaning in its base class"):
        Rounded()


def test_other_private_names_are_free() -> None:
    @dataclass(frozen=True, eq=False, kw_only=True, slots=True)
    class Slotted(Adam):
        """An optimizer whose class dataclasses make twice."""

    class Kept(Module[Any]):
        _limit = 3

        def __init__(self) -> None:
            self._shown = "shown"

        def _repr_html_(self) -> str:
            return self._shown

    class Later(Kept):
        _limit = 4  # of a class of other code

    class Images(Batch[Any], Mixin):  # which hides nothing of burnpy's
        _path = ""
        x: Tensor[Any]

    assert Slotted().betas == Adam().betas
    assert (Later()._limit, Later()._repr_html_(), Images._of_kind) == (4, "shown", Batch._of_kind)
