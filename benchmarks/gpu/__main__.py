"""Run the benchmarks on a GPU, and write one page of Markdown: ``python -m benchmarks.gpu [--out FILE]``.

Each part runs in a process of its own with a limit of time, so that one that fails leaves the others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.report import Section, budgets, markdown_of
from benchmarks.results import plain_section, section_of

PARTS = {"roofline": 90, "launches": 60, "kernels": 120, "operations": 90, "steps": 360}
"""The modules of the parts, and the seconds that each may take."""


def main(arguments: list[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/gpu.md"), help="the page (default: %(default)s)")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on the CPU, to see that everything runs")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        return run_part(options.part, options.out, options.rehearse)
    if not options.rehearse:
        from burnpy.backend import CuPy
        from burnpy.errors import BackendUnavailableError

        try:
            CuPy()
        except BackendUnavailableError as error:
            print(f"benchmarks.gpu: {error}", file=sys.stderr)
            return 1
    sections: list[Section] = []
    head: list[str] = []
    failures: list[str] = []
    for part in [options.only] if options.only else PARTS:
        print(f"== {part}", flush=True)
        results, trouble = started(part, options.rehearse)
        if trouble:
            failures.append(f"- {part} {trouble}")
            print(f"== {part} {trouble}", flush=True)
            continue
        head = results["machine"]
        sections += [section_of(s) for s in results["sections"]]
    failures += [
        f"- {section.title}, {line.work}, {column}: {cell}"
        for section in sections
        for line in section.lines
        for column, cell in line.cells.items()
        if isinstance(cell, str)
    ]
    page = [
        "# burnpy on a GPU" + (", a rehearsal on the CPU: the figures say nothing" if options.rehearse else ""),
        "",
        *(f"- {line}" for line in head),
        f"- {datetime.now(UTC):%Y-%m-%d}; times are medians of rounds in which the libraries take turns",
        *failures,
        "",
        *([] if options.rehearse else budgets(sections)),
        *map(markdown_of, sections),
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(page).rstrip() + "\n")
    print("\n".join(page))
    print(f"written to {options.out}")
    return int(bool(failures))


def started(part: str, rehearse: bool) -> tuple[dict[str, Any], str]:
    """Run a part in a process, and return its results, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, "-m", "benchmarks.gpu", "--part", part, "--out", str(out)]
        try:
            done = subprocess.run([*command, *["--rehearse"] * rehearse], timeout=PARTS[part], check=False)
        except subprocess.TimeoutExpired:
            return {}, f"was not done after {PARTS[part]} s"
        if done.returncode:
            return {}, f"failed with status {done.returncode}"
        return json.loads(out.read_text()), ""


def run_part(part: str, out: Path, rehearse: bool) -> int:
    """Measure one part in this process, and write its results as JSON."""
    if rehearse:
        from tests.hostcuda import simulator

        simulator.load()
    from benchmarks.gpu.libraries import machine
    from benchmarks.gpu.timing import FULL, REHEARSAL

    sections = import_module(f"benchmarks.gpu.{part}").sections(REHEARSAL if rehearse else FULL)
    out.write_text(json.dumps({"machine": machine(), "sections": [plain_section(s) for s in sections]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
