"""The processor that kernels are compiled for, and the cache of compiled code on disk."""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
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

    @property
    def fuses(self) -> bool:
        """True if it has instructions that multiply and add, and that convert float16."""
        return self.vector > 16 or self.registers > 16


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
_USES_512_BITS = "-prefer-256-bit"
"""The feature by which LLVM uses registers of 512 bits where there are some."""


@cache
def target() -> Target:
    """Return the target that ``BURNPY_TARGET`` selects."""
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
    return Target(host.triple, level.cpu, _USES_512_BITS if level.vector == 64 else "", level.vector, level.registers)


_AMX = {"+amx-bf16", "+amx-int8", "+avx512bf16"}
"""The features by which AMX's sums are computed and rounded."""
_REQUEST = 158, 0x1023, 18
"""The number of Linux's system call ``arch_prctl``, and its request for the registers of AMX."""


@cache
def has_amx() -> bool:
    """Return whether kernels may multiply bfloat16 and ints of 8 bits by AMX: the target has it, and Linux lets this
    process use it."""
    chosen = target()
    features = chosen.features.split(",")
    if sys.platform != "linux" or chosen.vector != 64 or not _AMX.issubset(features):
        return False
    try:
        refused: int = ctypes.CDLL(None).syscall(*map(ctypes.c_long, _REQUEST))
    except (OSError, AttributeError):
        return False
    return not refused


@cache
def has_dot_products(dtype: str) -> bool:
    """Return whether kernels multiply neighbouring numbers of 8 or 16 bits by instructions for vectors. Those of
    bfloat16 take four times as long in Intel's processors as two of float32."""
    chosen = target()
    needs, quick = ("+avx512bf16", chosen.cpu.startswith("znver")) if dtype == "bfloat16" else ("+avx512vnni", True)
    return chosen.vector == 64 and needs in chosen.features.split(",") and quick


def _native(host: Target, features: Mapping[str, bool], is_arm: bool) -> Target:
    """Return the target of a processor itself."""
    if not (is_arm or features.get("fma")):
        raise Unsupported("the processor has no fused multiplication and addition")
    flags = [f"{'+' if present else '-'}{feature}" for feature, present in sorted(features.items())]
    if features.get("avx512f"):
        return Target(host.triple, host.cpu, ",".join([*flags, _USES_512_BITS]), 64, 32)
    vector = 32 if features.get("avx2") else 16
    return Target(host.triple, host.cpu, ",".join(flags), vector, 32 if is_arm else 16)


def _either(names: Sequence[str]) -> str:
    """Return names as an enumeration."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_MAGIC = b"burnpy kernel 1\n"
_LARGEST_FILE = 1 << 26


def folder() -> Path | None:
    """Return the folder, which is made if it is missing; None if it cannot be made or is not the user's own."""
    path = _place()
    if not path.is_absolute():  # there is no home folder
        return None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if _is_own(os.lstat(path), stat.S_ISDIR) else None
    except OSError:
        return None


def _place() -> Path:
    given = os.environ.get("BURNPY_CACHE_DIR")
    if given:
        return Path(given).absolute()
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return Path(base) / "burnpy" / "kernels"


def _is_own(status: os.stat_result, is_kind: object) -> bool:
    """Return whether a file or folder is of a kind, belongs to the user, and is writable by nobody else."""
    assert callable(is_kind)
    if not is_kind(status.st_mode):
        return False
    if not hasattr(os, "getuid"):  # Windows: the user's profile folder has its own access list
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(key: str) -> bytes | None:
    """Return the code of an entry; None if there is none that can be trusted."""
    place = folder()
    if place is None:
        return None
    try:
        descriptor = os.open(place / key, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not _is_own(status, stat.S_ISREG):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:  # which refuses a folder
            content = file.read(min(status.st_size, _LARGEST_FILE))  # Python allocates as much as may be read
    except OSError:
        return None
    finally:
        os.close(descriptor)
    head, code = content[: len(_MAGIC) + 64], content[len(_MAGIC) + 64 :]
    return code if head == _head(key, code) else None


def write(key: str, code: bytes) -> None:
    """Write an entry, in place of one of the same name. Failing to write is not an error: the code is compiled again.

    The file is complete when it gets its name. It is not synced to the disk, as its checksum shows what a crash left.
    """
    place = folder()
    if place is None:
        return
    temporary = place / f".{key}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, code) + code)
        with suppress(OSError):
            os.rmdir(place / key)  # an empty folder, which a file cannot replace
        os.replace(temporary, place / key)
    except OSError:
        with suppress(OSError):
            temporary.unlink()


def _head(key: str, code: bytes) -> bytes:
    """Return what stands before the code: a name of the format, and a checksum of key and code."""
    return _MAGIC + hashlib.sha256(key.encode() + code).hexdigest().encode()
