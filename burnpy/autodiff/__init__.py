"""Differentiation: `Autodiff[B]` records a graph over any backend, and a backward pass returns `Gradients`."""

from __future__ import annotations

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.gradients import Gradients

__all__ = ["Autodiff", "Forward", "Gradients"]
