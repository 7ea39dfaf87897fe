"""The committed results: ``results.json``, by processor and BLAS, the page that is made of them, and the comparison
with them.

A group of tables is replaced as a whole when it is measured again; the others stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.measure import Spread
from benchmarks.report import Cell, Line, Section, budgets, markdown_of
from burnpy.environment import blas, processor

FILE = Path(__file__).with_name("results.json")
PAGE = Path(__file__).with_name("RESULTS.md")
BOOK = FILE.parent.parent / "burnpy" / "docs" / "book" / "performance.md"
"""The page of the book that shows the networks at full size of a machine."""
MARKS = ("<!-- full size, written by python -m benchmarks --write -->", "<!-- end of full size -->")
"""The lines of the page around its table."""
NETWORKS = ("1 thread", "2 threads", "peak memory")
"""The tables of networks at full size that the table in front is made of."""
DIGITS = 4
"""The significant digits that are kept of a figure."""
LEAST = 0.02
"""The difference of ratios that is never reported: several figures of memory have no spread at all."""


@dataclass(frozen=True)
class ResultGroup:
    """The tables of one group of benchmarks, with the command and the machine that they were made by."""

    command: str
    machine: Sequence[str]
    sections: Sequence[Section]


Results: TypeAlias = dict[str, dict[str, ResultGroup]]
"""Groups by name, by machine."""


def here() -> str:
    """Return the name that this machine's results have: those of its processor and its BLAS."""
    return f"{processor()}, {blas()}"


def load(file: Path = FILE) -> Results:
    """Read the committed results; none if there is no file."""
    if not file.exists():
        return {}
    return {
        machine: {
            name: ResultGroup(g["command"], g["machine"], [section_of(s) for s in g["sections"]])
            for name, g in own.items()
        }
        for machine, own in json.loads(file.read_text()).items()
    }


def store(results: Results, file: Path = FILE, page: Path = PAGE) -> None:
    """Write results, and the page that shows them."""
    plain = {
        machine: {
            name: {"command": g.command, "machine": list(g.machine), "sections": [plain_section(s) for s in g.sections]}
            for name, g in own.items()
        }
        for machine, own in sorted(results.items())
    }
    file.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
    page.write_text(to_markdown(load(file)))


def plain_section(section: Section) -> dict[str, Any]:
    """Return a table as values of JSON."""
    head = {"title": section.title, "how": section.how, "unit": section.unit, "digits": section.digits}
    return head | {"columns": list(section.columns), "lines": [_plain_line(line) for line in section.lines]}


def _plain_line(line: Line) -> dict[str, Any]:
    figures = {column: _text(cell) for column, cell in line.cells.items() if isinstance(cell, Spread)}
    words = {column: cell for column, cell in line.cells.items() if isinstance(cell, str)}
    entry = {"work": line.work, "figures": figures, "words": words, "budget": line.budget}
    entry |= {"roofline": _text(line.roofline), "ratio": _text(line.ratio)}
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _text(spread: Spread | None) -> str | None:
    """Return a figure as its median, its lowest and its highest value."""
    if spread is None:
        return None
    return " ".join(f"{x:.{DIGITS}g}" for x in (spread.middle, spread.low, spread.high))


def _spread(text: str | None) -> Spread | None:
    return Spread(*map(float, text.split())) if text else None


def section_of(found: Mapping[str, Any]) -> Section:
    """Return the table of values of JSON."""
    lines = [_line(line) for line in found["lines"]]
    return Section(found["title"], found["how"], found["unit"], found["columns"], lines, found["digits"])


def _line(found: Mapping[str, Any]) -> Line:
    cells: dict[str, Cell] = {column: _spread(text) for column, text in found.get("figures", {}).items()}
    cells |= found.get("words", {})
    ratio, roofline = _spread(found.get("ratio")), _spread(found.get("roofline"))
    return Line(found["work"], cells, ratio, found.get("budget"), roofline=roofline)


def networks(groups: Mapping[str, ResultGroup]) -> list[str]:
    """Return a table of the networks at full size, a row for each batch size; nothing if they were not measured.

    A sentence below it names what PyTorch does in less time or memory.
    """
    ratios: dict[str, dict[tuple[str, str], Line]] = {}
    for section in groups["full_size"].sections if "full_size" in groups else ():
        where = section.title.removeprefix("Full size, ")
        for line in section.lines if where in NETWORKS else ():
            work, _, what = line.work.rpartition(", ")
            ratios.setdefault(work, {})[what, where] = line
    if not ratios:
        return []
    measured = {column for lines in ratios.values() for column in lines}
    columns = [(what, where) for where in NETWORKS for what in ("training", "inference") if (what, where) in measured]
    table = ["| network | " + " | ".join(f"{what}, {where}" for what, where in columns) + " |"]
    table.append("| --- |" + " ---: |" * len(columns))
    ahead = []
    for work, lines in ratios.items():
        table.append(f"| {work} | " + " | ".join(_rated(lines.get(column)) for column in columns) + " |")
        for what, where in columns:
            ratio = lines[what, where].ratio if (what, where) in lines else None
            if ratio is not None and ratio.middle > 1.0:
                ahead.append(f"- {work}, {what}, {where}: {ratio.middle:.2f}")
    return [*table, "", *(["PyTorch is ahead in:", "", *ahead] if ahead else ["PyTorch is ahead in none of them."]), ""]


def _rated(line: Line | None) -> str:
    """Return a ratio, in bold if it is above its budget."""
    if line is None or line.ratio is None:
        return "–"
    return f"**{line.ratio.middle:.2f}**" if line.met == "NO" else f"{line.ratio.middle:.2f}"


def in_book(text: str, groups: Mapping[str, ResultGroup]) -> str:
    """Return the text of the page of the book with the networks at full size of a machine."""
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    table = [line for line in networks(groups) if line.startswith("|")]
    return "\n".join([text[:begin], *table, text[end:]]) if table else text


def to_markdown(results: Results) -> str:
    """Return the page of results."""
    page = ["# Measured", ""]
    opening = {machine: networks(groups) for machine, groups in results.items()}
    if any(opening.values()):
        page += ["## Networks at full size", "", "Ratios to PyTorch eager, which are above the budget in **bold**.", ""]
        page += [line for machine, table in opening.items() if table for line in (f"{machine}:", "", *table)]
    page += [
        "## All figures",
        "",
        "Made of `results.json` by `python -m benchmarks --write`. `make bench-check` compares with it.",
        "Ratios are burnpy's figure over PyTorch's unless a section says otherwise: below 1 is better. Each is",
        "the median over fresh processes that take turns, with the lowest and highest; a time is a median too.",
        "A roofline is burnpy's share of the rate that the machine reaches, measured in the same run: the rate of",
        "multiplying large matrices, or of copying memory, whichever takes longer.",
        "",
    ]
    for machine, groups in results.items():
        sections = [section for group in groups.values() for section in group.sections]
        made: dict[tuple[str, ...], list[str]] = {}
        for name, group in groups.items():
            made.setdefault((group.command, *group.machine), []).append(name)
        page += [f"## {machine}", ""]
        page += [f"- {', '.join(names)}: `{command}`; {'; '.join(rest)}" for (command, *rest), names in made.items()]
        page += ["", *budgets(sections), *map(markdown_of, sections)]
    return "\n".join(page).rstrip() + "\n"


@dataclass(frozen=True)
class Comparison:
    """The ratios of a run beside the committed ones of the same machine."""

    worse: Sequence[str]  #: a sentence for each ratio that is worse by more than its spread
    compared: int

    @property
    def passed(self) -> bool:
        """True if something was compared, and nothing is worse."""
        return bool(self.compared) and not self.worse

    def __str__(self) -> str:
        if not self.compared:
            return "No ratio was compared: none of this run has a committed one. Is PyTorch installed?"
        count = f"{self.compared} ratios compared with the committed ones"
        head = f"{count}; {len(self.worse)} are worse by more than their spread{':' if self.worse else '.'}"
        return "\n".join([head, *(f"- {sentence}" for sentence in self.worse)])


def compare(sections: Sequence[Section], reference: Sequence[Section]) -> Comparison:
    """Compare the ratios of a run with committed ones.

    A ratio is worse if its median lies above the committed median by more than the spread, from the lowest to the
    highest value, of either of them.
    """
    committed = {(s.title, line.work): line.ratio for s in reference for line in s.lines}
    worse: list[str] = []
    compared = 0
    for section in sections:
        for line in section.lines:
            now, then = line.ratio, committed.get((section.title, line.work))
            if now is None or then is None:
                continue
            compared += 1
            if now.middle - then.middle > max(now.high - now.low, then.high - then.low, LEAST):
                worse.append(
                    f"{section.title}, {line.work}: {now.middle:.2f} ({now.low:.2f}–{now.high:.2f}), "
                    f"committed {then.middle:.2f} ({then.low:.2f}–{then.high:.2f})"
                )
    return Comparison(worse, compared)
