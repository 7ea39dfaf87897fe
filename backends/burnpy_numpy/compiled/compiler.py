"""The compilation of LLVM's intermediate representation to machine code, and its loading, with llvmlite.

Code that was just compiled and code from the disk are loaded in the same way, as an object file.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from burnpy_numpy.compiled.entry import SYMBOLS, Entry, builtin
from burnpy_numpy.openblas import cblas_gemm

_engines: list[Any] = []
"""The engines that hold the loaded code until the process ends."""

_EXTERNAL = {"burnpy_sin": "sin", "burnpy_cos": "cos"}
"""Functions of the C library, by the name under which kernels call them."""


class Unsupported(RuntimeError):
    """This machine or this installation cannot compile kernels."""


@cache
def llvm() -> Any:
    """Import llvmlite and prepare it.

    Raises:
        Unsupported: it is missing or broken, or the processor lacks fused multiplication and addition.
    """
    try:
        import llvmlite.binding as binding  # pyright: ignore[reportMissingTypeStubs]
    except (ImportError, OSError) as error:
        raise Unsupported(f"llvmlite cannot be imported ({error}); pip install 'burnpy[fast]' installs it") from error
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if not features().get("fma", binding.get_default_triple().startswith(("aarch64", "arm64"))):
        raise Unsupported("the processor has no fused multiplication and addition")
    for name, function in _EXTERNAL.items():
        binding.add_symbol(name, _address_in_c(function))
    for name in ("memcpy", "memset", "memmove"):  # which LLVM may write in place of a loop
        binding.add_symbol(name, _address_in_c(name))
    for dtype in ("float32", "float64"):
        blas = cblas_gemm(dtype == "float32")
        if blas is not None:
            binding.add_symbol(f"burnpy_gemm_{dtype}", ctypes.cast(blas.function, ctypes.c_void_p).value)
    for name in SYMBOLS:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    return binding


def features() -> dict[str, bool]:
    """Return the features of the processor, by LLVM's names."""
    from llvmlite import binding  # pyright: ignore[reportMissingTypeStubs]

    return dict(binding.get_host_cpu_features())


def _address_in_c(name: str) -> int:
    """Return the address of a function of the C library."""
    for library in (None, "ucrtbase", "libm.so.6"):
        try:
            return int(ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0)
        except (OSError, AttributeError, TypeError):
            continue
    raise Unsupported(f"the C library has no {name}")


@cache
def vector_bytes() -> int:
    """Return the size of the vectors to compute with: two registers, so that one need not wait for the other."""
    available = features()
    return 2 * (64 if available.get("avx512f") else 32 if available.get("avx2") else 16)


def machine() -> str:
    """Return what compiled code depends on: processor, its features, operating system and the versions of LLVM."""
    import llvmlite  # pyright: ignore[reportMissingTypeStubs]

    binding = llvm()
    parts = (
        binding.get_default_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        llvmlite.__version__,
        binding.llvm_version_info,
    )
    return " ".join(map(str, parts))


@cache
def _target() -> Any:
    binding = llvm()
    wide = ",-prefer-256-bit" if features().get("avx512f") else ""
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten() + wide,
        opt=2,
        jit=True,
        codemodel="jitdefault",
    )


def compile_text(text: str) -> bytes:
    """Return the machine code of a module, as an object file."""
    binding, target = llvm(), _target()
    module = binding.parse_assembly(text)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False  # the text has vectors
    builder = binding.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(target.emit_object(module))


def load(code: bytes) -> Entry:
    """Load an object file and return its function ``entry`` as a built-in one of Python."""
    binding = llvm()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address("entry")
    if not address:
        raise RuntimeError("compiled code has no function entry")
    _engines.append(engine)
    return builtin(address)
