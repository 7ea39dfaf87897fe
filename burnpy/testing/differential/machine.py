"""Runs samples through the transformations, and shrinks what fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.devices import device_of
from burnpy.backend.errors import BurnpyError, NonFiniteError
from burnpy.testing.differential.judging import compare
from burnpy.testing.differential.making import Maker
from burnpy.testing.differential.samples import Case, Sample, Unsuitable
from burnpy.testing.differential.transformations import TRANSFORMATIONS, Transformation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.testing.cases.blocks import Block


@dataclass(frozen=True)
class Failure:
    """A transformation that disagrees on a sample."""

    transformation: str
    message: str
    sample: Sample | None
    number: int  #: of the sample
    seed: int

    def __str__(self) -> str:
        """Return the message with the sample as runnable code."""
        message = " ".join(self.message.split())
        if self.sample is None:
            return f"{self.transformation}: {message}"
        source = "\n".join(f"    {line}" for line in self.sample.source().splitlines())
        names = ", ".join(f"x{k}" for k in range(len(self.sample.inputs)))
        return (
            f"{self.transformation}: {message}  (sample {self.number} of seed {self.seed})\n"
            "    import numpy as np\n"
            "    from burnpy.testing.cases import ROWS\n"
            "    from burnpy.testing.differential import *\n"
            f"{source}\n    check(f, [{names}], only={self.transformation!r})"
        )


@dataclass
class Report:
    """The counts of a run."""

    samples: int = 0
    compared: Counter[str] = field(default_factory=Counter[str])
    wrong: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    unsuitable: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])  #: a sample that is refused, by message
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a table of the counts by transformation."""
        lines = [f"{self.samples} samples, {self.compared.total()} comparisons, {self.wrong.total()} wrong"]
        lines += [f"{name:44} {n:7} {self.wrong[name]:5}" for name, n in sorted(self.compared.items())]
        return "\n".join(lines)


def case_of(sample: Sample, device: Any) -> Case:
    """Return the case of a sample on a device."""
    return Case(sample, sample.inputs, device, sample.traits)


def tried(sample: Sample, device: Any, t: Transformation) -> str | None:
    """Return what is wrong with a sample; None if nothing is, or it is refused."""
    with np.errstate(all="ignore"):
        try:
            return compare(case_of(sample, device), t)
        except (BurnpyError, Unsuitable):
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def shrunk(sample: Sample, device: Any, t: Transformation, seconds: float = 30.0) -> Sample:
    """Return a sample with as few operations as possible on which the transformation still fails."""
    until = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < until:
        smaller = False
        for candidate in sample.smaller():
            if time.monotonic() > until:
                break
            if _size(candidate) < _size(sample) and tried(candidate, device, t) is not None:
                sample, smaller = candidate, True
                break
    smaller = True
    while smaller and time.monotonic() < until:
        smaller = False
        for candidate in sample.plainer_inputs():
            if time.monotonic() < until and tried(candidate, device, t) is not None:
                sample, smaller = candidate, True
                break
    return sample


def _size(sample: Sample) -> tuple[int, ...]:
    applied = sum(repr(step.args).count("Applied(") for step in sample.steps)
    return len(sample.steps), len(sample.outputs), applied, len(sample.inputs)


def chosen(only: str | None) -> list[Transformation]:
    """Return the transformations one of whose names contains one of some words, separated by commas. A name in full, as
    failures are printed with, chooses that one alone."""
    if not only:
        return list(TRANSFORMATIONS)
    exact = [t for t in TRANSFORMATIONS if t.name == only]
    return exact or [t for t in TRANSFORMATIONS if any(word.strip() in t.name for word in only.split(","))]


def run(
    device: Any,
    seed: int = 0,
    *,
    count: int | None = None,
    seconds: float | None = None,
    only: str | None = None,
    plans: float = 0.3,
    each: int = 6,
    blocks: Sequence[Block] = (),
    entries: Sequence[str] | None = None,
    first: int = 0,
    stop: int = 20,
    tell: Callable[[str], object] = lambda line: None,
) -> Report:
    """Make samples, and compare some transformations of each; see `differential`."""
    on = device_of(device)
    maker, table, report = Maker(seed, entries, blocks), chosen(only), Report()
    light, heavy = [t for t in table if not t.plans], [t for t in table if t.plans]
    until = None if seconds is None else time.monotonic() + seconds
    number = first
    while (count is None or number < first + count) and (until is None or time.monotonic() < until):
        rng = np.random.default_rng([seed, number, 1])
        with np.errstate(all="ignore"):
            sample = maker.sample(number)
            picked = _picked(rng, light, each)
            if heavy and (not light or rng.random() < plans):
                picked += _picked(rng, heavy, max(1, each // 3))
            _try(sample, on, picked, report, number, seed, tell)
        report.samples += 1
        number += 1
        if len(report.failures) >= stop:
            break
    return report


def _picked(rng: np.random.Generator, table: Sequence[Transformation], count: int) -> list[Transformation]:
    if not table:
        return []
    weights = np.array([t.weight for t in table])
    numbers = rng.choice(len(table), min(count, len(table)), replace=False, p=weights / weights.sum())
    return [table[int(k)] for k in numbers]


def _try(
    sample: Sample,
    on: Any,
    picked: Sequence[Transformation],
    report: Report,
    number: int,
    seed: int,
    tell: Callable[[str], object],
) -> None:
    try:
        case = case_of(sample, on)
    except BurnpyError as error:
        report.refused[f"f: {error!s:.90}"] += 1
        return
    held = [x.copy() for x in case.inputs]
    kept: list[tuple[NDArray[Any], bytes]] = []
    for t in picked:
        try:
            wrong = compare(case, t)
            kept += [(x, x.tobytes()) for xs in case._kept.values() for x in xs][:8]
            if wrong is None and (
                any(x.tobytes() != y.tobytes() for x, y in zip(case.inputs, held, strict=True))
                or any(x.tobytes() != y for x, y in kept)
            ):
                wrong = "an argument or an earlier result was changed"
        except Unsuitable as reason:
            report.unsuitable[f"{t.name}: {reason}"] += 1
            continue
        except NonFiniteError:
            report.unsuitable[f"{t.name}: not finite"] += 1
            continue
        except BurnpyError as error:
            said = f"{t.name}: {type(error).__name__}: {error!s:.160}"
            report.refused[said] += 1
            report.examples.setdefault(said, f"sample {number} of seed {seed}: {', '.join(sample.names)}")
            continue
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        report.compared[t.name] += 1
        if wrong is not None:
            report.wrong[t.name] += 1
            least = shrunk(sample, on, t) if tried(sample, on, t) else sample
            failure = Failure(t.name, tried(least, on, t) or wrong, least, number, seed)
            report.failures.append(failure)
            tell(str(failure))
            break  # the other transformations would say the same
