"""Tests for those who build on burnpy: `gradcheck` for functions, a conformance suite for backends.

``conformance_suite`` needs pytest, which comes with the extra ``burnpy[test]``; nothing here is imported by burnpy.
"""

from __future__ import annotations

from burnpy.testing.conformance import conformance_suite
from burnpy.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["GradcheckError", "conformance_suite", "gradcheck", "gradgradcheck"]
