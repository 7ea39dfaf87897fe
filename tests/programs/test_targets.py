"""`BURNPY_TARGET`: kernels for each processor that this one can execute code for, and written for the others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.backend.errors import ArgumentError
from burnpy.backend.programs import Extent, Input, Program, trace

pytest.importorskip("llvmlite")

from llvmlite import binding

from burnpy_numpy.kernels import kernel, recurrent
from burnpy_numpy.kernels.compiler import llvm, target, vectors
from burnpy_numpy.kernels.compiler.emitter import emit
from burnpy_numpy.kernels.convolution import tiles
from burnpy_numpy.kernels.products.product_kernel import product
from tests.programs.families import chosen, templates

ROOT = Path(__file__).resolve().parents[2]
PROGRAM: Program = trace(Backend.silu, (Input(Extent.FULL, "float32"),))
X = np.linspace(-2, 2, 64 * 100, dtype=np.float32).reshape(64, 100)
HERE = target.Target(binding.get_default_triple(), binding.get_host_cpu_name(), "", 0, 0)
FEATURES = dict(binding.get_host_cpu_features())
EVERY = [
    *(("x86_64-unknown-linux-gnu", name) for name in ("baseline", "avx2", "avx512")),
    ("aarch64-unknown-linux-gnu", "baseline"),
    ("arm64-apple-darwin", "baseline"),
    ("x86_64-pc-windows-msvc", "avx2"),
]
WIDER = ("avx2", "avx512")
"""Targets that differ from "baseline" in the size of their vectors; all tests run with the one of this processor."""


def executed(name: str) -> target.Target | None:
    """The target of a name, if this processor can execute its code."""
    try:
        return target.target_of(name, HERE, FEATURES)
    except ArgumentError:
        return None


def is_foreign(triple: str, name: str) -> bool:
    """Return whether this machine cannot execute code for a target."""
    return triple.split("-")[::2] != HERE.triple.split("-")[::2] or executed(name) is None


def families(*arguments: str, **environment: str) -> set[str]:
    """The names of the kernels that a new process runs or compiles."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.families", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"BURNPY_COMPILE": "1"} | environment,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.slowest
@pytest.mark.parametrize("name", ["baseline", *(pytest.param(name, marks=pytest.mark.long) for name in WIDER)])
def test_kernels_of_every_family_agree_with_references(name: str) -> None:
    able, native = executed(name), executed("native")
    if able is None:
        pytest.skip(f"this processor does not execute code for {name}")
    if native is not None and able[3:] == native[3:]:
        pytest.skip(f"{name} has the vectors of this processor, which all other tests run with")
    assert templates(able) < families("run", BURNPY_TARGET=name)


@pytest.mark.heavy("unicorn")
def test_kernels_of_every_family_agree_with_references_on_aarch64() -> None:
    if HERE.triple.startswith("aarch64"):
        pytest.skip("all other tests run with the vectors of this processor")
    assert templates(chosen("aarch64-unknown-linux-gnu", "baseline")) < families("emulate", BURNPY_NUM_THREADS="1")


@pytest.mark.long
@pytest.mark.parametrize(("triple", "name"), EVERY)
def test_kernels_of_every_family_compile_for_other_processors(triple: str, name: str) -> None:
    if not is_foreign(triple, name):
        pytest.skip(f"this processor executes code for {name}")
    assert templates(chosen(triple, name)) < families("compile", triple, name)


AVX512 = ("avx512f", "avx512dq", "avx512vl")
ALL = dict.fromkeys(("fma", "avx", "avx2", "bmi", "bmi2", "f16c", "lzcnt", "movbe", *AVX512), True)
MISTAKES = {
    "no such target": ("x86_64-pc-windows-msvc", ALL, "sse9", "'sse9', expected baseline, avx2, avx512 or native"),
    "no such target on ARM": ("arm64-apple-darwin", {}, "sse9", "'sse9', expected baseline or native"),
    "one that the processor lacks": (
        "x86_64-unknown-linux-gnu",
        ALL,
        "avx512",
        "'avx512', and this processor (x86_64, znver2) lacks avx512bw, avx512cd; set it to baseline, avx2 or native",
    ),
    "one of another architecture": (
        "aarch64-unknown-linux-gnu",
        {},
        "avx2",
        "'avx2', and this processor (aarch64, znver2) lacks avx2; set it to baseline or native",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_target_that_cannot_be_is_refused(mistake: str) -> None:
    triple, features, name, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError, match=re.escape(f"BURNPY_TARGET is {message}") + "$"):
        target.target_of(name, target.Target(triple, "znver2", "", 0, 0), features)


def test_native_needs_fused_multiplication_and_addition() -> None:
    old = target.Target("x86_64-unknown-linux-gnu", "sandybridge", "", 0, 0)
    with pytest.raises(target.Unsupported, match="no fused multiplication"):
        target.target_of("native", old, {"avx": True, "avx2": False})
    assert target.target_of("baseline", old, {"avx": True}).vector == 16


def use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the target as for a new process."""
    monkeypatch.setenv("BURNPY_TARGET", name)
    kernel._programs.clear()
    for cached in (target.target, kernel._setting, kernel._environment):
        cached.cache_clear()


@pytest.fixture
def settable(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A test may call `use`; afterwards, the process has its own target again."""
    yield kernels
    monkeypatch.undo()
    for cached in (target.target, kernel._setting, kernel._environment):
        cached.cache_clear()


def test_a_mistake_reaches_the_user_and_does_not_turn_kernels_off(
    settable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = NumPy()
    use("sse9", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(ArgumentError, match="BURNPY_TARGET is 'sse9', expected "):
                device.silu(X)
    assert kernel.failure() is None
    use("", monkeypatch)  # as if it were not set
    np.testing.assert_allclose(device.silu(X), X / (1 + np.exp(-X)), rtol=1e-5)
    assert len([*settable.iterdir()]) == 1


def test_each_target_has_entries_of_its_own_in_the_cache(settable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    able = {name: executed(name) for name in target.NAMES if executed(name) is not None}
    for _ in range(2):
        for name in able:
            use(name, monkeypatch)
            found = kernel.program_kernel(PROGRAM)
            assert found is not None
            np.testing.assert_allclose(found([X], (), *X.shape)[0], X / (1 + np.exp(-X)), rtol=1e-5)
        assert len([*settable.iterdir()]) == len(set(able.values())) == len(able)


@pytest.mark.parametrize(("name", "registers"), [("baseline", {"x"}), ("avx2", {"x", "y"}), ("avx512", {"x", "z"})])
def test_code_has_the_registers_of_its_target(name: str, registers: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    to = chosen("x86_64-unknown-linux-gnu", name)
    monkeypatch.setattr(vectors, "target", lambda: to)
    text, _ = emit(PROGRAM, 2 * to.vector)
    assembly = llvm.generator(to).emit_assembly(llvm.optimized(text, to))
    assert set(re.findall(r"%([xyz])mm\d", assembly)) <= registers
    assert f"%{max(registers)}mm" in assembly


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_bfloat16_compile_for_amx(transposed: bool) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    to = target.Target("x86_64-unknown-linux-gnu", "sapphirerapids", target._USES_512_BITS, 64, 32)
    text = product("float32", 16, 32, "amx", transposed, "bfloat16", "bfloat16", "bfloat16")
    assembly = llvm.generator(to).emit_assembly(llvm.optimized(text, to))
    assert {"ldtilecfg", "tdpbf16ps", "tilerelease"} <= set(assembly.split())
    assert set(re.findall(r"%tmm\d", assembly)) == {f"%tmm{k}" for k in range(8)}


@pytest.mark.parametrize(
    ("sums", "stored", "used"), [("float32", "bfloat16", "vdpbf16ps"), ("int32", "int8", "vpdpbusd")]
)
def test_words_compile_to_dot_products_whose_sums_stay_in_registers(sums: str, stored: str, used: str) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    to = target.Target("x86_64-unknown-linux-gnu", "znver4", target._USES_512_BITS, 64, 32)
    text = product(sums, 16, 32, "dots", False, stored, stored, sums)
    assembly = llvm.generator(to).emit_assembly(llvm.optimized(text, to))
    tile = max(assembly.split("\n.LBB"), key=lambda block: block.count(used))
    assert tile.count(used) == 4 * 12 * 2
    assert "%rsp" not in "".join(line for line in tile.splitlines() if used in line)


@pytest.mark.parametrize(("triple", "name"), EVERY)
def test_vectors_and_tiles_follow_the_target(triple: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    to = chosen(triple, name)
    for module in (target, llvm, tiles, recurrent):
        monkeypatch.setattr(module, "target", lambda: to)
    wide, many = {"avx2": 32, "avx512": 64}.get(name, 16), name == "avx512" or triple.startswith(("aarch64", "arm64"))
    assert llvm.vector_bytes() == 2 * wide
    where = (1, 1), (1, 1), (1, 1)
    found = tiles.windows.__wrapped__((8, 64, 64), (64, 8, 3, 3), where, 1, 4).forward
    assert found.width == wide // 4
    channels, vectors = found.block
    assert (channels * vectors + vectors + 1 > 16) is many
    assert recurrent.SequenceBlocks(24, 256, 4, "lstm", False).rows == (6 if many else 3)
    assert recurrent.SequenceBlocks(24, 256, 4, "lstm", True).wide == (4 if many else 2) * wide // 4
