"""``python -m benchmarks``: measure, show the tables, and draw a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import chains, checkpointing, data, imports, learner, linalg, networks, operations, tiny, training
from benchmarks.measure import FULL, QUICK, SMOKE
from benchmarks.picture import draw
from benchmarks.report import Section, machine, to_markdown, to_terminal

GROUPS = {
    "imports": imports.sections,
    "tiny": tiny.sections,
    "chains": chains.sections,
    "training": training.sections,
    "checkpointing": checkpointing.sections,
    "data": data.sections,
    "learner": learner.sections,
    "linalg": linalg.sections,
    "networks": networks.sections,
    "operations": operations.sections,
}
EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure, and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--effort", choices=EFFORTS, default="full", help="smoke only finds out whether all of it runs")
    parser.add_argument(
        "--quick", action="store_const", const="quick", dest="effort", help="fewer and shorter processes"
    )
    parser.add_argument(
        "--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP", help=", ".join(GROUPS)
    )
    parser.add_argument("--processes", type=int, metavar="N", help="fresh processes for each peer")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} beside this program")
    options = parser.parse_args(arguments)
    effort = EFFORTS[options.effort]
    if options.processes:
        effort = replace(effort, processes=options.processes)
    print("\n".join(machine()))
    sections: list[Section] = []
    for group in options.only:
        tables = GROUPS[group](effort, said)
        said("")
        to_terminal(tables)
        sections += tables
    picture = draw(sections, options.out / "benchmarks.png")
    print(f"the picture is {picture}" if picture else "no picture: matplotlib is not installed")
    if options.write:
        command = " ".join(["python -m benchmarks", *(arguments if arguments is not None else sys.argv[1:])])
        RESULTS.write_text(to_markdown(sections, command))
        print(f"the tables are in {RESULTS}")


def said(progress: str) -> None:
    """Show the current measurement if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
