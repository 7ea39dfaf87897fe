"""`explain`: the kernels that a computation runs, with their programs and generated code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from burnpy.backend.runtime import executed


class Described(Protocol):
    """The description of a kernel's computation: a `Program`, or a name and a sentence for a kernel without one."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def text(self) -> str:
        """The instructions of a program, or the sentence."""
        ...


class Kernel(Protocol):
    """A kernel that a backend has run, as it is listed in `burnpy.backend.runtime.executed`."""

    @property
    def program(self) -> Described:
        """The description of the kernel's computation."""
        ...

    @property
    def text(self) -> str:
        """The generated code, such as LLVM's intermediate representation."""
        ...


@dataclass(frozen=True)
class Explanation:
    """The kernels of a computation, in the order in which they ran first. ``print`` shows their programs."""

    result: Any  #: the function's result
    kernels: tuple[Kernel, ...]  #: without repeats
    calls: tuple[int, ...]  #: how often each ran

    def __str__(self) -> str:
        if not self.kernels:
            return "no kernel ran"
        parts = []
        for kernel, count in zip(self.kernels, self.calls, strict=True):
            times = "once" if count == 1 else f"{count} times"
            parts.append(f"{kernel.program.name}, {times}:\n" + _indented(kernel.program.text))
        return "\n\n".join(parts)

    @property
    def code(self) -> str:
        """The generated code of all kernels, each below its name."""
        return "\n\n".join(f"; {kernel.program.name}\n{kernel.text}" for kernel in self.kernels)


def explain(f: Callable[..., Any], *xs: Any) -> Explanation:
    """Call ``f(*xs)`` and return which kernels ran.

    Kernels are compiled programs: see `burnpy.backend.programs`. Calls of the array library are not listed;
    `burnpy.backend.Profiled` times every operation. Kernels that other threads run meanwhile are listed as well.

    Args:
        f: a function, such as a model or a training step.
        xs: its arguments.

    >>> x = Tensor[NumPy].from_data([0.5])
    >>> print(explain(lambda x: x.sigmoid(), x))  # a single element is computed by NumPy's own functions
    no kernel ran
    """
    noted: list[Kernel] = []
    executed.append(noted)
    try:
        result = f(*xs)
    finally:
        executed[:] = [other for other in executed if other is not noted]
    counts = Counter(map(id, noted))
    kernels = tuple({id(kernel): kernel for kernel in noted}.values())
    return Explanation(result, kernels, tuple(counts[id(kernel)] for kernel in kernels))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
