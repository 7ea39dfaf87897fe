"""Testing utilities: `gradcheck` for functions, a conformance suite for backends, and `burnpy.testing.differential`.

``conformance_suite`` needs pytest, which the extra ``burnpy[test]`` installs. burnpy itself imports nothing from here.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.testing.conformance": "conformance_suite",
    "burnpy.testing.gradcheck": "GradcheckError gradcheck gradgradcheck",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES, now=("burnpy.testing.gradcheck",))
