"""`Steps` and `Epochs`: intervals of checkpoints, validations and logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.train.events import BatchEnd, EpochEnd

if TYPE_CHECKING:
    from burnpy.train.events import Event


def _check(name: str, n: object) -> None:
    if not isinstance(n, int) or n < 1:
        raise ArgumentError(f"{name}({n!r}) is never; give an int of 1 or more")


@dataclass(frozen=True)
class Steps:
    """Every ``n`` optimizer steps."""

    n: int

    def __post_init__(self) -> None:
        _check("Steps", self.n)

    def due(self, event: Event[Any]) -> bool:
        """Return whether it is due at an event.

        >>> Steps(200).due  # doctest: +ELLIPSIS
        <bound method Steps.due of Steps(n=200)>
        """
        return isinstance(event, BatchEnd) and event.updated and event.step % self.n == 0


@dataclass(frozen=True)
class Epochs:
    """Every ``n`` epochs, at their end."""

    n: int = 1

    def __post_init__(self) -> None:
        _check("Epochs", self.n)

    def due(self, event: Event[Any]) -> bool:
        """Return whether it is due at an event."""
        return isinstance(event, EpochEnd) and (event.epoch + 1) % self.n == 0


Every: TypeAlias = Steps | Epochs


def check_every(owner: str, name: str, every: object) -> None:
    """Check that ``every`` is an interval.

    Raises:
        KindError: it is something else, such as a plain number, which does not say whether it counts steps or epochs.
    """
    if not isinstance(every, (Steps, Epochs)):
        hint = f": Steps({every}) or Epochs({every})" if isinstance(every, int) else ", as Steps(200) or Epochs(1)"
        raise KindError(f"{owner}({name}=) got {every!r:.80}; say what to count{hint}")


EACH_EPOCH = Epochs(1)
