"""`Target`: the processor that kernels are compiled for. The width of their vectors follows it.

``BURNPY_TARGET`` selects one: ``native``, the default, is the processor of this machine; ``baseline`` is the least that
its architecture guarantees; ``avx2`` and ``avx512`` are levels of x86-64 between these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from burnpy.backend.errors import ArgumentError


class Unsupported(RuntimeError):
    """This machine or this installation cannot compile kernels."""


class Outdated(Unsupported):
    """The installed llvmlite is older than kernels need."""


class Target(NamedTuple):
    """A processor, by LLVM's names, and its vector registers."""

    triple: str  #: architecture, vendor and operating system
    cpu: str
    features: str
    vector: int  #: the size of a vector register in bytes
    registers: int  #: the number of vector registers


class _Level(NamedTuple):
    """A level of x86-64, and the features without which a processor cannot execute its code."""

    cpu: str
    needs: tuple[str, ...]
    vector: int
    registers: int


_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_X86_64 = {
    "baseline": _Level("x86-64", (), 16, 16),
    "avx2": _Level("x86-64-v3", _V3, 32, 16),
    "avx512": _Level("x86-64-v4", _V4, 64, 32),
}
_AARCH64 = {"baseline": _Level("generic", (), 16, 32)}
_LEVELS = {"x86_64": _X86_64, "amd64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
NAMES = (*_X86_64, "native")
"""The values of ``BURNPY_TARGET``."""
_WIDE = "-prefer-256-bit"
"""The feature by which LLVM uses registers of 512 bits where there are some."""


@cache
def target() -> Target:
    """Return the target that ``BURNPY_TARGET`` selects.

    Raises:
        ArgumentError: there is no such target, or the processor cannot execute its code.
        Unsupported: kernels need a newer processor, or one of another architecture.
    """
    from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]

    host = Target(binding.get_default_triple(), binding.get_host_cpu_name(), "", 0, 0)
    return target_of(os.environ.get("BURNPY_TARGET") or "native", host, dict(binding.get_host_cpu_features()))


def target_of(name: str, host: Target, features: Mapping[str, bool]) -> Target:
    """Return the target with the given name on a processor with a triple, a name and features; see `target`."""
    architecture = host.triple.split("-")[0]
    levels = _LEVELS.get(architecture, {})
    if name not in NAMES:
        raise ArgumentError(f"BURNPY_TARGET is {name!r}, expected {_either([*levels, 'native'])}")
    if name == "native":
        return _native(host, features, levels is _AARCH64)
    lacking = [feature for feature in levels[name].needs if not features.get(feature)] if name in levels else [name]
    if lacking:
        able = [each for each, level in levels.items() if all(map(features.get, level.needs))]
        raise ArgumentError(
            f"BURNPY_TARGET is {name!r}, and this processor ({architecture}, {host.cpu}) lacks {', '.join(lacking)}; "
            f"set it to {_either([*able, 'native'])}"
        )
    level = levels[name]
    return Target(host.triple, level.cpu, _WIDE if level.vector == 64 else "", level.vector, level.registers)


def _native(host: Target, features: Mapping[str, bool], is_arm: bool) -> Target:
    """Return the target of a processor itself."""
    if not (is_arm or features.get("fma")):
        raise Unsupported("the processor has no fused multiplication and addition")
    flags = [f"{'+' if present else '-'}{feature}" for feature, present in sorted(features.items())]
    if features.get("avx512f"):
        return Target(host.triple, host.cpu, ",".join([*flags, _WIDE]), 64, 32)
    vector = 32 if features.get("avx2") else 16
    return Target(host.triple, host.cpu, ",".join(flags), vector, 32 if is_arm else 16)


def _either(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
