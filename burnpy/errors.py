"""Every error that burnpy raises on purpose: ``from burnpy.errors import ShapeError``.

They are those of `burnpy.backend.errors`, under the name that a program catches them by.
"""

from burnpy.backend.errors import *  # noqa: F403  # a door: whatever is there is here
