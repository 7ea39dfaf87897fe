"""The names of other libraries on the page of operations: each is there, and each is of an operation."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pytest

from burnpy.backend.backend import operations
from burnpy.docs import names_elsewhere
from burnpy.docs.names_elsewhere import in_burn, in_numpy, in_pytorch


def test_what_is_listed_is_an_operation() -> None:
    listed = {name for table in names_elsewhere._RENAMED.values() for name in table}
    listed |= set(names_elsewhere._SAME_IN_BURN.split())
    assert sorted(listed - operations().keys()) == []


def test_no_name_is_listed_twice() -> None:
    same = names_elsewhere._SAME_IN_BURN.split()
    assert len(same) == len({*same, *names_elsewhere._RENAMED["Burn"]}) - len(names_elsewhere._RENAMED["Burn"])


def test_numpy_has_the_names() -> None:
    for name in operations():
        if in_numpy(name).startswith("np."):
            assert callable(reduce(getattr, in_numpy(name).split(".")[1:], np)), name


@pytest.mark.parity
@pytest.mark.slow
def test_pytorch_has_the_names() -> None:
    import torch

    places = {"torch": torch, "F": torch.nn.functional, "x": torch.ones(1, 1)}
    for name in operations():
        first, *rest = in_pytorch(name).split(".")
        if rest and first in places:
            operator.attrgetter(".".join(rest))(places[first])


def test_most_operations_have_names() -> None:
    counts = [sum(1 for name in operations() if named(name)) for named in (in_pytorch, in_numpy, in_burn)]
    assert all(count > 90 for count in counts), counts
