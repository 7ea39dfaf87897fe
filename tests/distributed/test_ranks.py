"""Claims about groups, all checked on 3 real ranks: see `claims.py`. With `BURNPY_LONG_TESTS` set, on 2 and 4 too.

A number of ranks is one launch and one test, which names every claim that failed.
"""

from __future__ import annotations

import json

import pytest

from tests.distributed import claims
from tests.interrupting import LONG

from .conftest import launch

pytestmark = [pytest.mark.slow, pytest.mark.heavy("mpi4py")]


@pytest.mark.parametrize("size", [2, 3, 4] if LONG else [3])  # whose shares are uneven; learning.py has two
def test_every_claim_holds_on_ranks(size: int) -> None:
    done = launch(size, "claims", limit=240)
    assert done.returncode == 0, done.stderr
    results: dict[str, list[str]] = json.loads(done.stdout)
    assert {name: len(texts) for name, texts in results.items()} == dict.fromkeys(claims.CLAIMS, size)
    failed = [
        f"{name}, on rank {rank} of {size}:\n{text}"
        for name, texts in results.items()
        for rank, text in enumerate(texts)
        if text
    ]
    assert not failed, "\n".join(failed)


def test_an_exception_on_one_rank_ends_all_with_its_traceback() -> None:
    done = launch(2, "raising")
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "rank 1 raised" in done.stderr
    assert "ValueError: the data of this rank are spoilt" in done.stderr
