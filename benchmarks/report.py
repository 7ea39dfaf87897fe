"""Tables and plots of benchmark results: for the terminal, for Markdown, and as a picture."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.measure import Figures, Spread
from benchmarks.peers import MODULES

Cell: TypeAlias = Spread | str | None
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Line:
    """One row of a table: a piece of work, its figure in each column, and a ratio with its budget."""

    work: str
    cells: Mapping[str, Cell]  #: a figure by column, or the reason why there is none
    ratio: Spread | None
    budget: float | None
    curve: tuple[str, int] | None = None  #: the name and length of a chain, for the plot
    roofline: Spread | None = None  #: burnpy's share of the rate that the machine reaches, see `benchmarks.roofline`

    @staticmethod
    def of(
        work: str,
        figures: Figures,
        keys: Mapping[str, str],
        factor: float,
        ratio: Spread | None,
        budget: float | None,
        curve: tuple[str, int] | None = None,
        roofline: Spread | None = None,
    ) -> Line:
        """Create a line from the figures of one key per column."""
        columns = {column: (column, key) for column, key in keys.items()}
        return replace(Line.across(work, figures, columns, factor, ratio, budget, curve), roofline=roofline)

    @staticmethod
    def across(
        work: str,
        figures: Figures,
        columns: Mapping[str, tuple[str, str]],
        factor: float,
        ratio: Spread | None,
        budget: float | None,
        curve: tuple[str, int] | None = None,
    ) -> Line:
        """Create a line from any figures: a pair of job and key for each column."""
        cells: dict[str, Cell] = {}
        for column, (job, key) in columns.items():
            spread = figures.of(job, key)
            errors = figures.errors.get(job, {})
            if spread:
                cells[column] = spread.times(factor)
            elif job in figures.missing:
                cells[column] = NOT_INSTALLED
            else:
                error = errors.get(key, errors.get(""))
                cells[column] = None if error is None else f"fails: {error}"
        return Line(work, cells, ratio, budget, curve)

    @property
    def met(self) -> str:
        """The rating of the median ratio: "yes" within the budget, else "NO"; "not measured"; "–" without a budget."""
        if self.budget is None:
            return "–"
        if self.ratio is not None:
            return "yes" if self.ratio.middle <= self.budget else "NO"
        failed = any(isinstance(c, str) and c.startswith("fails") for c in self.cells.values())
        return "–" if failed else "not measured"


@dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    how: str
    unit: str
    columns: Sequence[str]
    lines: Sequence[Line] = field(default_factory=list)
    digits: int = 3

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows as text, with columns for roofline, ratio and budget if a line has them."""
        rated = any(line.ratio or line.budget for line in self.lines)
        unit = f", {self.unit}" if self.unit else ""
        header = ["work", *(column + unit for column in self.columns)]
        rows = [[line.work, *(self._cell(line.cells.get(column)) for column in self.columns)] for line in self.lines]
        if any(line.roofline for line in self.lines):
            header.append("roofline")
            for row, line in zip(rows, self.lines, strict=True):
                row.append(f"{line.roofline.middle:.0%}" if line.roofline else "–")
        if rated:
            header += ["ratio (lowest–highest)", "budget", "met"]
            for row, line in zip(rows, self.lines, strict=True):
                ratio = f"{line.ratio.middle:.2f} ({line.ratio.low:.2f}–{line.ratio.high:.2f})" if line.ratio else "–"
                row += [ratio, "–" if line.budget is None else f"≤ {line.budget:g}", line.met]
        return header, rows

    def _cell(self, cell: Cell) -> str:
        if cell is None:
            return "–"
        if isinstance(cell, str):
            return "fails" if cell.startswith("fails") else cell
        return f"{cell.middle:.{self.digits}g}" if cell.middle < 1000 else f"{cell.middle:,.0f}"

    @property
    def notes(self) -> str:
        """The description of the measurement, and the reasons of failures."""
        words = [c for line in self.lines for c in line.cells.values() if isinstance(c, str)]
        failures = {c for c in words if c.startswith("fails")}
        absent = [column for column in self.columns if self._absent(column)]
        left_out = [f"{', '.join(absent)}: left out, as {'they are' if len(absent) > 1 else 'it is'} not installed."]
        return " ".join([self.how, *(f"{failure}." for failure in sorted(failures)), *(left_out if absent else [])])

    def _absent(self, column: str) -> bool:
        """Return whether the peer of a column is not installed."""
        cells = [line.cells[column] for line in self.lines if line.cells.get(column) is not None]
        return bool(cells) and all(cell == NOT_INSTALLED for cell in cells)


def to_terminal(sections: Sequence[Section]) -> None:
    """Print the tables, with rich if it is installed, otherwise as Markdown."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        print("\n".join(markdown_of(section) for section in sections))
        return
    console = Console(width=None if sys.stdout.isatty() else 170)
    for section in sections:
        header, rows = section.table()
        table = Table(title=section.title, caption=section.notes, title_justify="left", caption_justify="left")
        for k, name in enumerate(header):
            table.add_column(name, justify="right" if k else "left")
        for row in rows:
            table.add_row(*map(escape, row), style="bold red" if row[-1] == "NO" else None)
        console.print(table)


def machine() -> list[str]:
    """Return the versions, the system and the date."""
    versions = [f"Python {sys.version.split()[0]}"]
    for package in dict.fromkeys((*(package for _, package in MODULES.values()), "llvmlite")):
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    libc = " ".join(platform.libc_ver())
    cores = f"{os.cpu_count()} logical cores"
    return [", ".join(versions), f"{platform.system()}, {libc}, {cores}", f"{datetime.now(UTC):%Y-%m-%d}"]


def markdown_of(section: Section) -> str:
    """Return a section as Markdown."""
    header, rows = section.table()
    lines = [
        f"### {section.title}",
        "",
        section.notes.rstrip(),
        "",
        _row(header),
        _row(["---", *["---:"] * (len(header) - 1)]),
    ]
    return "\n".join([*lines, *map(_row, rows), ""])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def budgets(sections: Sequence[Section]) -> list[str]:
    """Return how many budgets are kept, and a list of those that are not."""
    rated = [line for section in sections for line in section.lines if line.met in ("yes", "NO")]
    kept = sum(line.met == "yes" for line in rated)
    missed = [f"- {s.title}: {line.work}" for s in sections for line in s.lines if line.met == "NO"]
    return [
        f"Budgets kept: {kept} of {len(rated)}.{' Missed:' if missed else ''}",
        "",
        *missed,
        *([""] if missed else []),
    ]


def draw(sections: Sequence[Section], path: Path) -> Path | None:
    """Write a PNG file and return its path; return None if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    rated = [(s, line) for s in sections for line in s.lines if line.ratio and (line.budget or "gradients" in s.title)]
    figure = Figure(figsize=(16, max(6.0, 0.19 * len(rated))), layout="constrained")
    bars, curves = figure.subplots(1, 2, width_ratios=(3, 2))
    for place, (_, line) in enumerate(rated):
        assert line.ratio is not None
        color = {"yes": "tab:green", "NO": "tab:red"}.get(line.met, "tab:gray")
        below, above = line.ratio.middle - line.ratio.low, line.ratio.high - line.ratio.middle
        bars.barh(place, line.ratio.middle, xerr=[[below], [above]], color=color, height=0.7, capsize=2)
        if line.budget is not None:
            bars.plot([line.budget] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
    bars.set_yticks(range(len(rated)), [f"{s.title}: {line.work}" for s, line in rated], fontsize=7)
    bars.invert_yaxis()
    bars.margins(y=0.005)
    bars.axvline(1.0, color="gray", linewidth=0.8)
    bars.set_xlabel("ratio: median, lowest and highest; black: the budget")
    drawn = [line for section in sections for line in section.lines if line.curve]
    for name in dict.fromkeys(line.curve[0] for line in drawn if line.curve):
        hue: Any = None
        for peer, style in (("burnpy", "-"), ("torch", "--")):
            points = _points(drawn, name, peer)
            if points:
                label = name if style == "-" else None
                (shown,) = curves.plot(*zip(*points, strict=True), style, marker=".", color=hue, label=label)
                hue = shown.get_color()
    if drawn:
        curves.set_xscale("log")
        curves.set_ylim(bottom=0)
        curves.set_xlabel("nodes")
        curves.set_ylabel("µs per node, forward, gradients and freeing; dashed: torch")
        if curves.get_legend_handles_labels()[0]:
            curves.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return path


def _points(lines: Sequence[Line], name: str, peer: str) -> list[tuple[int, float]]:
    """Return the length and median of each chain with a name."""
    points = []
    for line in lines:
        cell = line.cells.get(peer)
        if line.curve and line.curve[0] == name and isinstance(cell, Spread):
            points.append((line.curve[1], cell.middle))
    return points
