"""The context an operation runs in: a forward pass, or the rule of a backward pass.

A context variable: `Autodiff` sets it during a backward pass if its inner device asks for it
(`Backend.wants_rule_context`), and `Profiled`, `Checked` and error reports read it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from burnpy.backend.source_lines import Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.backend.decorators.profile import Profile

Direction: TypeAlias = Literal["forward", "backward"]


class OpContext(NamedTuple):
    """Where an operation runs."""

    direction: Direction = "forward"
    rule: str = ""  #: in a backward pass, the operation whose gradient is being made or added up; "" before the first
    stack: Stack = ()  #: where the user's forward pass recorded that operation, if anyone looked on (`track_lines`)


FORWARD = OpContext()
op_context: ContextVar[OpContext] = ContextVar("burnpy_place", default=FORWARD)
"""The place of the context. Sums of gradients belong to the rule that made the last addend."""
recorders: ContextVar[tuple[Profile, ...]] = ContextVar("burnpy_profiles", default=())
"""The profiles that are being recorded in this context, the outermost first."""


def capture_context() -> Callable[[], None]:
    """What brings the place and the profiles of this context to another, for who runs something of a backward pass in
    a context of its own: called there."""
    here, profiles = op_context.get(), recorders.get()

    def bring() -> None:
        op_context.set(here)
        recorders.set(profiles)

    return bring
