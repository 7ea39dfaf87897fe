"""The generated files are up to date, so that each change of a signature or a table shows in a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnpy.docs import generated


@pytest.mark.parametrize("path", generated.FILES, ids=generated.name_of)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    up_to_date = path.read_text(encoding="utf-8") == generated.FILES[path]()
    assert up_to_date, f"{generated.name_of(path)} is out of date: run make generated"


def test_one_that_is_out_of_date_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (path, *_) = generated.FILES
    monkeypatch.setitem(generated.FILES, path, lambda: "")
    with pytest.raises(AssertionError, match=r"pointwise_declared\.py is out of date: run make generated"):
        test_a_generated_file_is_up_to_date(path)
