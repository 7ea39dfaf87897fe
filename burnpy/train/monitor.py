"""The value that a callback monitors, and whether it has improved."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from burnpy.backend.errors import ArgumentError
from burnpy.train.events import EpochEnd, Event, FitStart, ValidEnd

Mode: TypeAlias = Literal["min", "max"]


def monitored(callback: str, name: str, event: Event[Any]) -> float | None:
    """Return the monitored value if the event is the one that brings it, else None.

    Values whose names begin with "valid/" come with each `ValidEnd`, all others with `EpochEnd`.

    Raises:
        ArgumentError: there is no value of this name; the message lists the names.
    """
    validation = name.startswith("valid/")
    if isinstance(event, FitStart) and validation and not event.validates:
        raise ArgumentError(
            f"{callback} monitors {name!r}, and this run has no validation; give fit() validation batches"
        )
    if not isinstance(event, ValidEnd if validation else EpochEnd):
        return None
    if name not in event.values:
        known = ", ".join(sorted(event.values)) or "none"
        raise ArgumentError(f"{callback} monitors {name!r}, which this run does not have; it has {known}")
    return event.values[name]


def mode_of(name: str, mode: Mode | None, event: Event[Any]) -> Mode:
    """Return the given mode, or else the metric's: "min" for losses and errors, "max" for others."""
    if mode is not None:
        return mode
    metric = event.metrics.get(name) if isinstance(event, (EpochEnd, ValidEnd)) else None
    return "min" if metric is None else metric.better


def improved(value: float, best: float | None, mode: Mode, min_delta: float = 0.0) -> bool:
    """Return whether a value is better than the best so far by more than ``min_delta``; NaN never is.

    >>> improved(0.5, None, "min"), improved(0.5, 0.4, "min"), improved(0.5, 0.4, "max", 0.1)
    (True, False, False)
    """
    if value != value:
        return False
    if best is None:
        return True
    return value < best - min_delta if mode == "min" else value > best + min_delta


def check_mode(callback: str, mode: object) -> None:
    """Check that a mode is "min", "max" or None.

    Raises:
        ArgumentError: it is something else.
    """
    if mode not in ("min", "max", None):
        raise ArgumentError(f'{callback} got mode={mode!r:.80}; expected "min", "max", or None to take the metric\'s')
