"""Testing utilities: `gradcheck` for functions, and a conformance suite for backends.

``conformance_suite`` needs pytest, which the extra ``burnpy[test]`` installs. burnpy itself imports nothing from here.
"""

from __future__ import annotations

from burnpy.testing.conformance import conformance_suite
from burnpy.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "conformance_suite", "gradcheck", "gradgradcheck"]
