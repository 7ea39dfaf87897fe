"""Claims about groups, each checked on 2 and 3 real ranks: see `ranks.py`. A number of ranks is one launch.

Where `BURNPY_LONG_TESTS` is set, on 4 as well.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.distributed import ranks
from tests.interrupting import LONG

from .conftest import launch

pytestmark = pytest.mark.slow


@cache
def results(size: int) -> dict[str, list[str]]:
    done = launch(size, "ranks")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # what main() printed


@pytest.mark.parametrize("claim", ranks.CLAIMS)
@pytest.mark.parametrize("size", [2, 3, 4] if LONG else [2, 3])
def test_on_ranks(size: int, claim: str) -> None:
    failures = {rank: text for rank, text in enumerate(results(size)[claim]) if text}
    assert len(results(size)[claim]) == size
    assert not failures, "\n".join(f"rank {rank} of {size}:\n{text}" for rank, text in failures.items())


def test_an_exception_on_one_rank_ends_all_with_its_traceback() -> None:
    done = launch(2, "raising")
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "rank 1 raised" in done.stderr
    assert "ValueError: the data of this rank are spoilt" in done.stderr
