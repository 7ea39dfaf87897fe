"""The errors that burnpy raises on purpose: ``from burnpy.errors import ShapeError``.

They are defined in `burnpy.backend.errors` and exported here for programs that catch them.
"""

from burnpy.backend.errors import *  # noqa: F403  # exports all of them


def __dir__() -> list[str]:
    return [name for name in globals() if name.endswith("Error")]
