"""The context of an operation: a forward pass, or a rule of a backward pass.

`Autodiff` sets `op_context` while its inner device requests it (`Backend.wants_rule_context`); error messages and
profiles read it.
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
    """The pass, and in a backward pass the rule, in which an operation runs."""

    direction: Direction = "forward"
    rule: str = ""  #: in a backward pass, the operation whose vjp is computed or accumulated; "" before the first
    stack: Stack = ()  #: where the forward pass recorded that operation, if within `track_lines`


FORWARD = OpContext()
op_context: ContextVar[OpContext] = ContextVar("burnpy_place", default=FORWARD)
"""The current `OpContext`. Sums of gradients belong to the rule that computed the last addend."""
recorders: ContextVar[tuple[Profile, ...]] = ContextVar("burnpy_profiles", default=())
"""The profiles being recorded in this context, the outermost first."""


def capture_context() -> Callable[[], None]:
    """Return a function that copies the `OpContext` and the profiles of this context to the context it is called in,
    for code that runs part of a backward pass in a context of its own."""
    context, profiles = op_context.get(), recorders.get()

    def restore() -> None:
        op_context.set(context)
        recorders.set(profiles)

    return restore
