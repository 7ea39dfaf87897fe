"""Backends that wrap a backend: `Checked[B]` and `Profiled[B]` observe its operations, `Mixed[B]` rounds operands.

`Recorded`, in `burnpy.backend.decorators.recorded`, records operations for a plan. All derive from
`burnpy.backend.decorators.decorator.Decorator`, which generates their operations from the schema.
"""

from __future__ import annotations

from burnpy.backend.decorators.checked import Checked
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.decorators.mixed import Mixed
from burnpy.backend.decorators.profile import Profile
from burnpy.backend.decorators.profiled import Profiled

__all__ = ["Checked", "Decorator", "Mixed", "Profile", "Profiled"]
