"""Programs: small descriptions of kernels that every backend can execute, and that a backend may compile.

A `Program` computes on rows of matrices: elementwise operations, broadcast vectors, sums and maxima over rows or
columns. It is traced from an operation's default (`trace`), so that an operation such as gelu is written once, and
executed by the operation `Backend.run`. Other computations (matrix products, windows, attention) are no programs.
"""

from __future__ import annotations

from burnpy.backend.programs.program import Extent, Input, Instruction, Program, ProgramError
from burnpy.backend.programs.trace import trace

__all__ = ["Extent", "Input", "Instruction", "Program", "ProgramError", "trace"]
