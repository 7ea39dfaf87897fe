"""Compiles kernels by NVRTC, in a process of its own: CUDA's compiler does not run beside our libcuda.so.1.

    python -m tests.hostcuda.nvrtc

For each line with a JSON list of a list of sources, an architecture and options of NVRTC, it writes a line: a JSON list
of the kernels' resources (`Resources`), or a string, the compiler's errors. `compiled` asks it. The compiler notes the
resources for the driver in a cubin, an ELF file of 64 bits: its section ``.nv.info`` has a record for the registers of
each kernel, ``.nv.info.NAME`` one for the largest block that ``__launch_bounds__`` declares, and ``.nv.shared.NAME``
has the size of its shared memory. A record is a format, an attribute and a size or value, and then so many bytes.

Source: NVIDIA, CUDA Binary Utilities; the numbers of attributes as LLVM and cuda-binutils name them.
"""

from __future__ import annotations

import atexit
import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from tests.hostcuda import compile as kernels
from tests.hostcuda.places import CUDA_HEADERS, CUPY_HEADERS

_INCLUDED = ("cub", "libcudacxx", "thrust")
OPTIONS = (  # as CuPy gives them
    *(f"-I{CUPY_HEADERS}", *(f"-I{CUPY_HEADERS}/cupy/_cccl/{name}" for name in _INCLUDED), f"-I{CUDA_HEADERS}"),
    *("--std=c++17", "-ftz=true", "--device-as-default-execution-space"),
)
_SIZED = 4  # EIFMT_SVAL: the record has bytes after its head
_REGISTERS = 0x2F  # EIATTR_REGCOUNT: the index of a symbol, and a number
_STACK = 0x11  # EIATTR_FRAME_SIZE: the index of a symbol, and a number
_BLOCK = 0x05  # EIATTR_MAX_THREADS: three sizes of a block
_ENTRY = 0x10  # STO_CUDA_ENTRY, of a symbol's st_other


class Resources(NamedTuple):
    """The resources of a kernel."""

    name: str
    registers: int  #: of a thread
    block: int  #: threads of the largest block, 0 if not declared
    shared: int  #: bytes
    stack: int  #: bytes of memory of a thread: arrays, and values for which there are no registers


class _Section(NamedTuple):
    name: str
    link: int
    size: int
    content: bytes


def resources(cubin: bytes) -> list[Resources]:
    """Return the resources of all kernels."""
    sections = _sections(cubin)
    by_name = {section.name: section for section in sections}
    symbols = next(section for section in sections if section.name == ".symtab")
    names = sections[symbols.link].content
    records = list(_records(by_name[".nv.info"].content))
    stacks = dict(struct.unpack("<II", value) for attribute, value in records if attribute == _STACK)
    found = []
    for attribute, value in records:
        if attribute != _REGISTERS:
            continue
        index, registers = struct.unpack("<II", value)
        (at,) = struct.unpack_from("<I", symbols.content, 24 * index)
        name = names[at : names.index(b"\0", at)].decode()
        if not symbols.content[24 * index + 5] & _ENTRY:
            continue  # a function that kernels call
        info = by_name.get(f".nv.info.{name}")
        declared = dict(_records(info.content)).get(_BLOCK) if info else None
        x, y, z = struct.unpack("<III", declared) if declared else (0, 0, 0)
        shared = by_name.get(f".nv.shared.{name}")
        found.append(Resources(name, registers, x * y * z, shared.size if shared else 0, stacks.get(index, 0)))
    return found


def _sections(cubin: bytes) -> list[_Section]:
    start, count, names = struct.unpack_from("<Q", cubin, 0x28)[0], *struct.unpack_from("<HH", cubin, 0x3C)
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + 64 * k) for k in range(count)]
    text = cubin[heads[names][4] :]
    nothing = 8  # SHT_NOBITS: takes no bytes of the file
    return [
        _Section(
            text[head[0] : text.index(b"\0", head[0])].decode(),
            head[6],
            head[5],
            b"" if head[1] == nothing else cubin[head[4] : head[4] + head[5]],
        )
        for head in heads
    ]


def _records(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, at)
        at += 4
        taken = size if form == _SIZED else 0
        yield attribute, content[at : at + taken]
        at += taken


def compiled(texts: list[str], architecture: int, *options: str) -> list[Resources]:
    """Return the resources of the kernels that the compiler makes from sources; an error says what it refuses."""
    compiler = _compiler(*options)
    compiler.stdin.write(json.dumps([texts, architecture, *options]) + "\n")
    compiler.stdin.flush()
    line = compiler.stdout.readline()
    assert line, f"NVRTC's process ended with status {compiler.wait()}"
    said = json.loads(line)
    assert isinstance(said, list), said
    return [Resources(*each) for each in said]


@cache
def _compiler(*options: str) -> Any:
    """Return the process that compiles with some options, which stay set in it; to start one takes 0.3 s."""
    command = [sys.executable, "-m", "tests.hostcuda.nvrtc"]
    compiler = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(compiler.communicate)  # which ends it
    return compiler


def main(texts: list[str], architecture: int, *options: str) -> list[Resources] | str:
    """Compile sources in one go, each in a namespace of its own. Return the resources, or the errors."""
    from cupy_backends.cuda.libs import nvrtc  # alone: to import all of CuPy takes a second

    included = dict.fromkeys(line for text in texts for line in re.findall(r"^\s*#\s*include.*$", text, re.MULTILINE))
    bodies = [text.replace('extern "C" __global__', "__global__") for text in texts]
    spaced = [kernels.in_namespace(f"k{k}", body) for k, body in enumerate(bodies)]
    program: Any = nvrtc.createProgram("\n".join([*included, *spaced]), "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"-arch=sm_{architecture}", *options))
        return resources(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError:
        return "\n".join([line for line in nvrtc.getProgramLog(program).splitlines() if "error" in line][:5])
    finally:
        nvrtc.destroyProgram(program)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(main(*json.loads(line))), flush=True)
