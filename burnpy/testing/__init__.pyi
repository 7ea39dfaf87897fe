"""The names of `burnpy.testing`, made from its table by ``make generated``."""

from burnpy.testing.conformance import conformance_suite
from burnpy.testing.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "GradcheckError", "conformance_suite", "gradcheck", "gradgradcheck",
]  # fmt: skip
