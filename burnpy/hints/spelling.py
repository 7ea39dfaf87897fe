"""Which name was meant: one that differs by a slip of the fingers, never one that is merely similar."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def meant(name: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that was meant, if there is one: other cases, or one or two letters wrong.

    Words are compared with words, and numbers must agree: l1_loss is not nll_loss, and conv1d not conv2d.

    >>> meant("sofmax", ["softmax"]), meant("RELU", ["Relu"]), meant("l1_loss", ["nll_loss"])
    ('softmax', 'Relu', None)
    """
    found: list[tuple[int, str]] = []
    for other in names:
        slips = _slips(name, other)
        if slips is not None:
            found.append((slips, other))
    return min(found)[1] if found else None


def _slips(name: str, other: str) -> int | None:
    """How many letters are wrong; None if it is another name."""
    if name.lower().replace("_", "") == other.lower().replace("_", ""):
        return 0
    ours, theirs = _words(name), _words(other)
    if len(ours) != len(theirs):
        return None
    total, short = 0, 5 if len(ours) == 1 else 4  # tan is not tanh, but mse_los is mse_loss
    for word, wanted in zip(ours, theirs, strict=True):
        if word == wanted:
            continue
        if word.isdigit() or wanted.isdigit():
            return None
        slips, letters = _distance(word, wanted), max(len(word), len(wanted))
        if slips > (0 if letters < short else 1 if letters < 6 else 2):
            return None
        total += slips
    return total if total <= 2 else None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _distance(a: str, b: str) -> int:
    """How many letters must be changed, added, left out or exchanged with the next to make one word of the other."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, before, row = before, row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[j + 1] = min(row[j + 1], last[j - 1] + 1)
    return row[-1]
