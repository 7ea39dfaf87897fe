"""Decorators of backends that compute as the inner backend does and look on: `Checked[B]` and `Profiled[B]`.

Both are made from the schema by `burnpy.backend.decorators.decorator`, which is also where the next one begins.
"""

from __future__ import annotations

from burnpy.backend.decorators.checked import Checked
from burnpy.backend.decorators.decorator import Decorator
from burnpy.backend.decorators.profile import Profile
from burnpy.backend.decorators.profiled import Profiled

__all__ = ["Checked", "Decorator", "Profile", "Profiled"]
