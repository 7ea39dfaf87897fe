"""Mistakes that only values show, on a GPU: nothing is waited for to find them, and no wrong number is read.

CuPy is a stand-in here; that its own functions do the same is shown by the conformance suite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Checked, CuPy, NumPy, Profiled
from burnpy.backend.errors import ArgumentError, BurnpyError, IndexRangeError
from tests.backend.recording_xp import Journal
from tests.rows import every_row


def floats(device: Any) -> Tensor[Any]:
    return Tensor.from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)


def ints(data: Any, device: Any, dtype: str = "int64") -> IntTensor[Any]:
    return IntTensor.from_data(data, dtype=dtype, device=device)


# what is asked of x of shape (2, 3) and of ints, and what is said of it
MISTAKES: list[tuple[Callable[[Any, Any], Any], Any, type[BurnpyError], str]] = [
    (lambda x, i: x[i], [0, 5], IndexRangeError, r"x\[...\] got index 5 along dim 0, of size 2"),
    (lambda x, i: x[i], [-3, 1], IndexRangeError, r"index -3 along dim 0.*from -2 to 1"),
    (lambda x, i: x[0, i], [[1], [3]], IndexRangeError, "index 3 along dim 1, of size 3"),
    (lambda x, i: x.at[i].add(1.0), [2], IndexRangeError, "index 2 along dim 0"),
    (
        lambda x, i: x.index_select(1, i),
        [0, -1],
        IndexRangeError,
        r"index_select\(\) got index -1.*from 0 to 2",
    ),
    (lambda x, i: x.gather(1, i), [[0, 3]], IndexRangeError, r"gather\(\) got index 3 along dim 1"),
    (lambda x, i: x.scatter(1, i, 9.0), [[4]], IndexRangeError, r"scatter\(\) got index 4"),
    (lambda x, i: x.scatter_add(0, i, x), [[1, 1, 2]], IndexRangeError, r"scatter_add\(\) got index 2"),
    (lambda x, i: i.one_hot(3), [0, 3], IndexRangeError, r"one_hot\(\) got index 3 along dim 1, of size 3"),
    (lambda x, i: burnpy.cross_entropy(x, i), [0, 3], IndexRangeError, r"cross_entropy\(\) got index 3"),
    (lambda x, i: i // (i - 4), [4, 5], ArgumentError, "integer division of int64 divides by zero"),
    (lambda x, i: i % (i - 4), [4, 5], ArgumentError, "remainder of int64 divides by zero"),
]
DRAWING: list[tuple[Callable[[Any, Any], Any], Any, type[BurnpyError], str]] = [
    (lambda x, i: (x + i.sum().float()).bernoulli(), [4, 5], ArgumentError, r"bernoulli\(\) takes probabilities"),
    (lambda x, i: (x / i.sum().float()).categorical(), [0], ArgumentError, r"categorical\(\).*no distribution"),
]
"""Mistakes of operations that draw random numbers, whose kernels the stand-in does not run: see `tests.hostcuda`."""


@every_row("device", [CuPy, Autodiff[CuPy], Autodiff[Profiled[CuPy]]], ids=str)
@every_row(("mistake", "data", "error", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_when_the_device_is_waited_for(
    mistake: Any, data: Any, error: Any, words: str, device: Any, journal: Journal
) -> None:
    x, i = floats(device), ints(data, device)
    before = journal.waits
    out = mistake(x, i)  # here
    assert journal.waits == before, "the device was waited for"
    with pytest.raises(error, match=words) as caught:
        out.tolist()
    assert type(caught.value) is error
    for part in ("CuPy(0) computes asynchronously", "Checked[CuPy]", "The call was:", "test_late_errors.py"):
        assert part in str(caught.value)
    out.tolist()  # told once


@pytest.mark.parametrize(("mistake", "data", "error", "words"), [*MISTAKES, *DRAWING])
def test_checked_tells_at_the_operation(mistake: Any, data: Any, error: Any, words: str, journal: Journal) -> None:
    device = Checked[CuPy]
    x, i = floats(device), ints(data, device)
    with pytest.raises(error, match=words), Checked.allow():
        mistake(x, i)


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.to_numpy(),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: bool(x[0, 0] > 0),
        lambda x: np.asarray(x),
        lambda x: x.device.synchronize(),
        lambda x: x.to_device(NumPy),
        lambda x: Profiled(CuPy).synchronize(),
    ],
    ids=range(9),
)
def test_every_wait_tells(wait: Callable[[Any], Any], journal: Journal) -> None:
    x = floats(CuPy)
    x[ints([7], CuPy)]
    with pytest.raises(IndexRangeError, match="index 7"):
        wait(x)
    wait(x)


def test_the_elements_read_meanwhile_are_in_range(journal: Journal) -> None:
    """NumPy's take raises, where a GPU would read on."""
    x = floats(CuPy)
    for data in ([9, -9, 1], [1 << 40]):
        out = x[ints(data, CuPy)]
        with pytest.raises(IndexRangeError):
            CuPy().synchronize()
        assert all(row in x.tolist() for row in out.tolist())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_every_int_dtype_indexes(dtype: str, journal: Journal) -> None:
    x = Tensor[CuPy].arange(1000.0)
    assert x[ints([0, 99], CuPy, dtype)].tolist() == [0.0, 99.0]
    if dtype == "uint64":
        x[ints([(1 << 64) - 1], CuPy, dtype)]  # as an int64 it would be -1
        with pytest.raises(IndexRangeError, match=str((1 << 63) - 1)):
            CuPy().synchronize()


def test_right_ones_tell_nothing(journal: Journal) -> None:
    x = floats(Autodiff[CuPy]).require_grad()
    out = x[ints([-1, 0, 1], Autodiff[CuPy])] + x[ints([[]], Autodiff[CuPy])].sum()
    grads = burnpy.cross_entropy(out, ints([2, 0, 1], Autodiff[CuPy])).backward()
    assert grads[x].shape == (2, 3)
    assert np.isfinite(grads[x].to_numpy()).all()


def test_of_several_each_is_told(journal: Journal) -> None:
    x = floats(CuPy)
    for k in (10, 0, 11, 1, 12):
        x[ints([k], CuPy)]
    for k in (10, 11, 12):
        with pytest.raises(IndexRangeError, match=f"index {k} "):
            CuPy().synchronize()
    CuPy().synchronize()


def test_devices_tell_of_their_own(journal: Journal) -> None:
    x = floats(CuPy(1))
    x[ints([7], CuPy(1))]
    CuPy(0).synchronize()
    with pytest.raises(IndexRangeError, match=r"CuPy\(1\) computes asynchronously"):
        x.tolist()
    assert journal.current == 0


def test_where_nothing_can_be_read_it_is_told_at_once(journal: Journal) -> None:
    with pytest.raises(IndexRangeError, match="index 1 along dim 0, of size 0"):
        Tensor[CuPy].zeros((0, 3))[ints([1], CuPy)]


@pytest.mark.slow
def test_a_loop_that_never_waits_keeps_few_checks(journal: Journal) -> None:
    x, i = floats(CuPy), ints([0], CuPy)
    before = journal.waits
    for _ in range(3000):
        x.index_select(0, i)
    assert 1 <= journal.waits - before <= 3
    assert len(CuPy()._late._waiting) < 1024

    def loop() -> None:
        x.index_select(0, ints([2], CuPy))
        for _ in range(1100):
            x.index_select(0, i)

    with pytest.raises(IndexRangeError, match="index 2"):
        loop()


class Slow(NumPy):
    """A device that would be waited for."""

    eager_checks = False


@pytest.mark.parametrize("device", [CuPy, Slow])
def test_an_ignored_index_is_right(device: Any, journal: Journal) -> None:
    x, wanted = floats(device), burnpy.cross_entropy(floats(NumPy)[:1], ints([2], NumPy))
    found = burnpy.cross_entropy(x, ints([2, -7], device), ignore_index=-7)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    with pytest.raises(IndexRangeError, match="index -7"):
        burnpy.cross_entropy(x, ints([2, -7], device), ignore_index=-8).item()


def test_a_device_that_writes_no_later_is_waited_for() -> None:
    with pytest.raises(IndexRangeError, match=r"gather\(\) got index 5 along dim 0, of size 3"):
        Tensor.ones((3,), device=Slow).gather(0, ints([5], Slow))
    with pytest.raises(ArgumentError, match="probabilities"):
        Tensor.full((3,), 2.0, device=Slow).bernoulli()
