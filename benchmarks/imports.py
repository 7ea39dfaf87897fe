"""What an import takes, in a fresh interpreter: the time of the statement, without the interpreter's own start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

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
from time import perf_counter
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
try: before = resident()
except OSError: before = None
start = perf_counter()
{statement}
print(perf_counter() - start)
print(0 if before is None else resident() - before)
"""


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers, in more processes than elsewhere: each takes little time."""
    figures = Figures()
    for column in STATEMENTS:
        if not installed(column if column in MODULES else "burnpy"):
            figures.missing.add(column)
    present = [column for column in STATEMENTS if column not in figures.missing]
    count = effort.processes * 3 if effort.seconds else 1
    for turn in range(count + 1):
        said(f"imports: process {turn + 1} of {count + 1}")
        first = turn % len(present)
        for column in present[first:] + present[:first]:
            program = PROGRAM.format(statement=STATEMENTS[column])
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            if done.returncode:
                figures.errors.setdefault(column, {})[""] = done.stderr.strip().splitlines()[-1]
            elif turn:  # the first writes the bytecode and fills the page cache
                seconds, grown = map(float, done.stdout.splitlines()[-2:])
                figures.turns.setdefault(column, []).append({"seconds": seconds, "memory": grown})
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
    how = f"{count} fresh interpreters each, bytecode compiled before. The ratio is to `import numpy`."
    return [
        Section("Imports", how, "", ["ms"], lines),
        Section("Imports, memory", "Resident set after the statement less before it.", "", ["MiB"], memory),
    ]
