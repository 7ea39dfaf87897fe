"""Benchmark of imports in a fresh interpreter: the processor time and memory of the import statement alone.

As after an installation, the modules have been compiled before: to a temporary folder of this run, whatever the
environment says about writing bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory

from benchmarks.measure import Effort, Figures
from benchmarks.peers import MODULES, installed
from benchmarks.report import Line, Section

STATEMENTS = {
    "NumPy": "import numpy",
    "burnpy": "import burnpy",
    "burnpy and NumPy device": "from burnpy.backend import NumPy; NumPy()",
    "torch": "import torch",
    "autograd": "import autograd.numpy",
    "MyGrad": "import mygrad",
}
PROGRAM = """
from time import process_time
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
try: before = resident()
except OSError: before = None
start = process_time()
{statement}
print(process_time() - start)
print(0 if before is None else resident() - before)
"""


def imported(statement: str, environment: dict[str, str]) -> dict[str, float]:
    """Run one import in a fresh interpreter; return its time in seconds and the growth of the resident set in bytes."""
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, grown = map(float, process.stdout.splitlines()[-2:])
    return {"seconds": seconds, "memory": grown}


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers, in more processes than the other benchmarks, as each takes little time."""
    figures = Figures()
    for column in STATEMENTS:
        if not installed(column if column in MODULES else "burnpy"):
            figures.missing.add(column)
    count = effort.processes * 3 if effort.seconds else 1
    with TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        present = [column for column in STATEMENTS if column not in figures.missing]
        for turn in range(count + 1):
            said(f"imports: process {turn + 1} of {count + 1}")
            first = turn % len(present)
            for column in present[first:] + present[:first]:
                values = imported(STATEMENTS[column], environment)
                if turn:  # the first compiles and fills the page cache
                    figures.turns.setdefault(column, []).append(values)
    lines = []
    for column, statement in STATEMENTS.items():
        ratio = figures.ratio((column, "seconds"), ("NumPy", "seconds"))
        columns = {"ms": (column, "seconds")}
        budget = 1.3 if column == "burnpy" else None
        lines.append(Line.across(statement, figures, columns, 1e3, None if column == "NumPy" else ratio, budget))
    memory = [
        Line.across(statement, figures, {"MiB": (column, "memory")}, 2.0**-20, None, None)
        for column, statement in STATEMENTS.items()
    ]
    how = f"{count} fresh interpreters each, processor time, modules compiled before. The ratio is to `import numpy`."
    return [
        Section("Imports", how, "", ["ms"], lines),
        Section("Imports, memory", "Resident set after the statement less before it.", "", ["MiB"], memory),
    ]
