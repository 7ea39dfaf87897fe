"""Claims about `Group.backward`, each checked on 3 real ranks, or on 2 too: see `overlapped.py`."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.distributed import overlapped
from tests.interrupting import LONG

from .conftest import launch

pytestmark = pytest.mark.slow


@cache
def results(size: int) -> dict[str, list[str]]:
    done = launch(size, "overlapped")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # what main() printed


@pytest.mark.parametrize("claim", overlapped.CLAIMS)
@pytest.mark.parametrize("size", [2, 3] if LONG else [3])
def test_on_ranks(size: int, claim: str) -> None:
    failures = {rank: text for rank, text in enumerate(results(size)[claim]) if text}
    assert not failures, "\n".join(f"rank {rank} of {size}:\n{text}" for rank, text in failures.items())
