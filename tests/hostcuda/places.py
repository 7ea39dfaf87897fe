"""Where the kit's sources lie, and where what is made of them goes: the folder hostcuda of the virtual environment."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from pathlib import Path

CUPY = "14.2.0"
SOURCES = Path(__file__).parent / "cuda"
BUILT = Path(sys.prefix) / "hostcuda"
SITE = Path(sysconfig.get_path("purelib"))
CUDA_HEADERS = SITE / "nvidia" / "cu13" / "include"
CUPY_HEADERS = SITE / "cupy" / "_core" / "include"
RUNTIME = f"runtime{sysconfig.get_config_var('EXT_SUFFIX')}"
STAMP = BUILT / "made-of"


def fingerprint() -> str:
    """Of the sources of the libraries, so that they are made again when these change."""
    read = [path.read_bytes() for path in sorted(SOURCES.glob("*.cpp")) + sorted(SOURCES.glob("*.h"))]
    return hashlib.sha1(b"\0".join([CUPY.encode(), sys.version.encode(), *read])).hexdigest()


def is_built() -> bool:
    """Whether what there is was made of these sources."""
    return STAMP.exists() and STAMP.read_text() == fingerprint()
