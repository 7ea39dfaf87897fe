"""Compiles kernels by NVRTC, in a process of its own: CUDA's compiler does not run beside our libcuda.so.1.

    python -m tests.hostcuda.nvrtc ARCHITECTURE < a JSON list of sources

It writes a JSON list of the kernels' resources (`cubin.Resources`), or the compiler's errors.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from tests.hostcuda import compile as kernels
from tests.hostcuda.cubin import resources
from tests.hostcuda.places import CUDA_HEADERS, CUPY_HEADERS

_INCLUDED = ("cub", "libcudacxx", "thrust")
OPTIONS = (  # as CuPy gives them
    *(f"-I{CUPY_HEADERS}", *(f"-I{CUPY_HEADERS}/cupy/_cccl/{name}" for name in _INCLUDED), f"-I{CUDA_HEADERS}"),
    *("--std=c++17", "-ftz=true", "--device-as-default-execution-space"),
)


def main(architecture: str, texts: list[str]) -> str:
    """Compile sources in one go, each in a namespace of its own. Return what is written."""
    from cupy.cuda import nvrtc

    included = dict.fromkeys(line for text in texts for line in re.findall(r"^\s*#\s*include.*$", text, re.MULTILINE))
    bodies = [text.replace('extern "C" __global__', "__global__") for text in texts]
    spaced = [kernels.in_namespace(f"k{k}", body) for k, body in enumerate(bodies)]
    program: Any = nvrtc.createProgram("\n".join([*included, *spaced]), "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"-arch=sm_{architecture}"))
        return json.dumps(resources(nvrtc.getCUBIN(program)))
    except nvrtc.NVRTCError:
        return "\n".join([line for line in nvrtc.getProgramLog(program).splitlines() if "error" in line][:5])


if __name__ == "__main__":
    print(main(sys.argv[1], json.load(sys.stdin)))
