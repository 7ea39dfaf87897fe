"""Testing utilities: `gradcheck` for functions, and a conformance suite for backends.

``conformance_suite`` needs pytest, which the extra ``burnpy[test]`` installs. burnpy itself imports nothing from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import missing
from burnpy.testing.conformance import conformance_suite
from burnpy.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "conformance_suite", "gradcheck", "gradgradcheck"]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with what to write instead."""
        return missing(__name__, name)
