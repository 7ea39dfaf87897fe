"""``python -m benchmarks``: measure, show the tables, draw a picture, and compare with the committed results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    chains,
    checkpointing,
    clipping,
    compiled,
    data,
    distributed,
    full_size,
    imports,
    inference,
    kernels,
    learner,
    linalg,
    models,
    networks,
    operations,
    products,
    results,
    solvers,
    special,
    spectra,
    tiny,
    training,
    vmap,
)
from benchmarks.measure import FULL, QUICK, SMOKE
from benchmarks.report import Section, draw, machine, to_terminal
from benchmarks.results import ResultGroup

GROUPS = {
    "full_size": full_size.sections,
    "imports": imports.sections,
    "tiny": tiny.sections,
    "chains": chains.sections,
    "training": training.sections,
    "training_threads": training.shared_sections,
    "training_details": training.detailed_sections,
    "inference": inference.sections,
    "compiled": compiled.sections,
    "kernels": kernels.sections,
    "clipping": clipping.sections,
    "checkpointing": checkpointing.sections,
    "data": data.sections,
    "learner": learner.sections,
    "distributed": distributed.sections,
    "linalg": linalg.sections,
    "models": models.sections,
    "solvers": solvers.sections,
    "special": special.sections,
    "spectra": spectra.sections,
    "vmap": vmap.sections,
    "networks": networks.sections,
    "operations": operations.sections,
    "products": products.sections,
}
EFFORTS = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, measure, and report; return the exit status, 1 if a comparison fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--effort", choices=EFFORTS, default="full", help="smoke only finds out whether all of it runs")
    parser.add_argument(
        "--quick",
        action="store_const",
        const="quick",
        dest="effort",
        help="fewer and shorter processes, without compilers",
    )
    parser.add_argument(
        "--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP", help=", ".join(GROUPS)
    )
    parser.add_argument("--processes", type=int, metavar="N", help="fresh processes for each peer")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER", help="where the picture goes")
    parser.add_argument(
        "--write", action="store_true", help=f"put the results into {results.FILE.name} and {results.PAGE.name}"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"fail if a ratio is worse than in {results.FILE.name} by more than its spread",
    )
    options = parser.parse_args(arguments)
    effort = EFFORTS[options.effort]
    if options.processes:
        effort = replace(effort, processes=options.processes)
    effort = replace(effort, compilers=effort.compilers and not options.check)  # no budget is about them
    here = results.here()
    print("\n".join([here, *machine()]))
    committed = results.load()
    if options.check and not set(committed.get(here, {})) & set(options.only):
        print(f"There is no reference for this machine, {here}; `python -m benchmarks --write` makes one.")
        return 0
    measured: dict[str, list[Section]] = {}
    for group in options.only:
        measured[group] = GROUPS[group](effort, said)
        said("")
        to_terminal(measured[group])
    sections = [section for group in measured.values() for section in group]
    picture = draw(sections, options.out / "benchmarks.png")
    print(f"the picture is {picture}" if picture else "no picture: matplotlib is not installed")
    if options.write:
        command = " ".join(["python -m benchmarks", *(arguments if arguments is not None else sys.argv[1:])])
        groups = {name: ResultGroup(command, machine(), tables) for name, tables in measured.items()}
        own = committed.get(here, {}) | groups
        committed[here] = {name: own[name] for name in GROUPS if name in own}
        results.store(committed)
        results.BOOK.write_text(results.in_book(results.BOOK.read_text(), results.load()[here]))
        print(f"the tables are in {results.PAGE}")
    if options.check:
        reference = [section for group in committed[here].values() for section in group.sections]
        comparison = results.compare(sections, reference)
        print(comparison)
        return 0 if comparison.passed else 1
    return 0


def said(progress: str) -> None:
    """Show the current measurement if standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
