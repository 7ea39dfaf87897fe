"""Suggestions for misspelled names: a name that differs by a typing error, never one that is merely similar."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def meant(name: str, names: Iterable[str]) -> str | None:
    """Return the closest of ``names`` that differs in case, or in one or two letters; None if there is none.

    Names are compared word by word, and numbers must be equal: l1_loss is not nll_loss, and conv1d is not conv2d.

    >>> meant("sofmax", ["softmax"]), meant("RELU", ["Relu"]), meant("l1_loss", ["nll_loss"])
    ('softmax', 'Relu', None)
    """
    candidates: list[tuple[int, str]] = []
    for other in names:
        slips = _slips(name, other)
        if slips is not None:
            candidates.append((slips, other))
    return min(candidates)[1] if candidates else None


def _slips(name: str, other: str) -> int | None:
    """Return the number of letters that differ; None if the names differ too much to be a misspelling."""
    if name.lower().replace("_", "") == other.lower().replace("_", ""):
        return 0
    words, other_words = _words(name), _words(other)
    if len(words) != len(other_words):
        return None
    total, short = 0, 5 if len(words) == 1 else 4  # tan is not tanh, but mse_los is mse_loss
    for word, expected in zip(words, other_words, strict=True):
        if word == expected:
            continue
        if word.isdigit() or expected.isdigit():
            return None
        slips, letters = _distance(word, expected), max(len(word), len(expected))
        if slips > (0 if letters < short else 1 if letters < 6 else 2):
            return None
        total += slips
    return total if total <= 2 else None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _distance(a: str, b: str) -> int:
    """Return the edit distance of two words, where swapping two adjacent letters counts as one edit."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, before, row = before, row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[j + 1] = min(row[j + 1], last[j - 1] + 1)
    return row[-1]
