"""Changes one place of the source after another, and reports which test fails then.

    python -m tests.mutations --seed 0 --count 60

To compare two suites on the same places: `--pick-from` names the tree whose places are picked, `--root` the tree that
is changed and tested; a place that it lacks is absent. A test counts if, run by itself, it fails with the change and
passes without. Tests that concern the place run first. A place survives when all pass, or its processor time is spent.
A test that hangs catches the change: one that takes much processor time, or waits and takes none. No limit is one of
the clock, which tests on a busy machine would exceed without a fault.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from tests.mutations.places import Place, found_in, picked

HERE = Path(__file__).parents[2]
NOT_BY_DEFAULT = ("benchmarks", "distributed", "examples", "hostcuda", "metrics", "parity")
TABLES = ("conformance", "third_party")
"""Folders whose tests are named by operations."""
LATE = (*TABLES, "data", "docs", "record", "train", "typing")
FIRST = {
    "burnpy/autodiff": ("autodiff", "func"),
    "burnpy/backend": ("backend", "autodiff", "programs"),
    "burnpy/backend/numerics": ("backend", "linalg"),
    "burnpy/backend/operations/decompositions": ("linalg", "backend"),
    "burnpy/backend/operations/linalg": ("linalg", "backend"),
    "burnpy/backend/operations/programs": ("optim", "backend", "programs"),
    "burnpy/backend/programs": ("programs",),
    "burnpy/backend/operations/fourier": ("fft", "backend"),
    "burnpy/fft": ("fft",),
    "burnpy/func": ("func",),
    "burnpy/linalg": ("linalg",),
    "burnpy/nn": ("nn",),
    "burnpy/optim": ("optim",),
    "burnpy/tensor": ("tensor",),
    "backends": ("backend", "programs", "tensor"),
    "backends/burnpy_numpy/kernels": ("programs",),
}
"""The folders of tests that concern a folder or file."""
PYTEST = ("-x", "-v", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.mutations.__main__")
LONGEST_TEST, LONGEST_WAIT = 120.0, 120.0
"""The processor time of a test, and the time without any, after which it hangs."""
FAILED = re.compile(r"^(?:(\S+?\.py::.+?) (?:FAILED|ERROR)\b|ERROR (\S+))", re.M)
SPENT, NONE_CHOSEN = -signal.SIGXCPU, 5


def pytest_runtest_logstart() -> None:
    """Let the system end a test that computes for too long: a hook, where this module is a plugin of pytest."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST_TEST)


def spent_by(session: int) -> float:
    """Return the processor time of the processes of a session and their children, in ticks."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(") ")[2].split()
            total += sum(map(int, fields[11:15])) * (int(fields[3]) == session)
    return total


def ended(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Wait for a process that leads a session, or end it if all of the session only waits; return its usage."""
    before, since = -1.0, time.monotonic()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        time.sleep(0.2)
        if time.monotonic() - since >= LONGEST_WAIT:
            spent = spent_by(process.pid)
            if spent == before:
                process.kill()
            before, since = spent, time.monotonic()


def operations(place: Place, source: str) -> list[str]:
    """Return the names of the operations that a place may concern."""
    if not place.file.startswith(("burnpy/backend/operations/", "backends/")):
        return []
    declared = r"    def ([a-z]\w+)"
    names = set(re.findall(declared, source))
    parts = [*place.function.split("."), *re.findall(declared, place.line)]  # hypot_x_vjp is a part of hypot
    own = {name for name in names if any(f"{part}_".startswith(f"{name}_") for part in parts)}
    return sorted(own or names)


def ordered(place: Place, tests: Sequence[Path], root: Path) -> list[str]:
    """Return the test files, those first that concern the place's folder, and of those the ones that name it most."""
    folder = max((f for f in FIRST if place.file.startswith(f)), key=len, default="")
    words = {*re.findall(r"[a-zA-Z]{4,}", place.function.rpartition(".")[2]), Path(place.file).stem}
    named = re.compile(rf"\b(?:{'|'.join(words)})\b")

    def rank(test: Path) -> tuple[int, int]:
        room = test.relative_to(root / "tests").parts[0]
        late = len(FIRST.get(folder, ())) + (room in LATE)
        near = FIRST[folder].index(room) if room in FIRST.get(folder, ()) else late
        return near, -len(named.findall(test.read_text(encoding="utf-8")))

    return [test.relative_to(root).as_posix() for test in sorted(tests, key=rank)]


class Suite:
    """A tree and its tests, run in copies of it.

    Args:
        root: the tree, a git repository.
        paths: the tests, relative to it.
        work: a folder for copies and caches.
        limit: the seconds of processor time for one place.
    """

    def __init__(self, root: Path, paths: Sequence[str], work: Path, limit: float) -> None:
        self.root, self.work, self.limit = root, work, limit
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        self.files = [root / name for name in listed.decode().split("\0") if name and (root / name).is_file()]
        chosen = [root / path for path in paths]
        tests = [f for f in self.files if f.match("test_*.py") and any(f == c or c in f.parents for c in chosen)]
        self.tests = [test for test in tests if "fixtures" not in test.parts]
        self.passing: dict[str, bool] = {}
        """Return whether a test passes without a change."""
        self.lock = Lock()

    def copied(self, name: str) -> Path:
        """Return a fresh copy of the tree. Its path is the same as before, so that Python finds the bytecode."""
        copy = self.work / name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.rmtree(files := copy.with_name(f"{name}-files"), ignore_errors=True)
        files.mkdir(parents=True)
        for file in self.files:
            target = copy / file.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        return copy

    def run(self, copy: Path, command: Sequence[str], seconds: float) -> tuple[int, str, float]:
        """Run Python in a copy; return its status, its output and the processor time that it took."""
        environment = {
            "PYTHONPYCACHEPREFIX": str(self.work / "bytecode"),
            "BURNPY_CACHE_DIR": str(self.work / "kernels"),
            "MYPY_CACHE_DIR": str(self.work / "mypy"),
            **os.environ,
            "TMPDIR": str(copy.with_name(f"{copy.name}-files")),
            "PYTHONPATH": os.pathsep.join([str(copy), str(copy / "backends")]),
        }

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 20))

        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=copy,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=limited,
            )
            usage = ended(process)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a test that ended badly has left behind
            output.seek(0)
            text = output.read().decode(errors="replace")
        return process.returncode, text, usage.ru_utime + usage.ru_stime

    def failing(self, copy: Path, tests: Sequence[str], seconds: float) -> tuple[str | None, float]:
        """Return the first test that fails because of the change, and the processor time left."""
        unrelated: list[str] = []
        while seconds > 0:
            deselected = [f"--deselect={test}" for test in unrelated]
            command = ["-m", "pytest", *PYTEST, *deselected, *tests]
            status, text, used = self.run(copy, command, seconds)
            seconds -= used
            if status in (0, NONE_CHOSEN, SPENT):
                return None, seconds if status != SPENT else 0
            failed = FAILED.search(text)
            if failed is None:  # the interpreter ended, or nothing can be imported
                started = re.findall(r"^\S+?\.py::.+$", text, re.M)
                return f"{started[-1] if started else 'import'} (status {status})", seconds
            test = failed[1] or failed[2]
            if self.passes(test) and not self.alone(copy, test):
                return test, seconds
            unrelated.append(test)
        return None, 0

    def passes(self, test: str) -> bool:
        """Return whether a test passes without the change."""
        if test not in self.passing:
            with self.lock:
                self.passing[test] = self.alone(self.copied("unchanged"), test)
        return self.passing[test]

    def alone(self, copy: Path, test: str) -> bool:
        """Return whether a test passes in a copy, run by itself; of a file, whether its tests are found."""
        only = [] if "::" in test else ["--collect-only"]
        return self.run(copy, ["-m", "pytest", *PYTEST, *only, test], 300)[0] == 0

    def batches(self, place: Place) -> Iterator[list[str]]:
        """Yield arguments of pytest, those that concern the place most first."""
        tests = ordered(place, self.tests, self.root)
        if names := operations(place, (self.root / place.file).read_text(encoding="utf-8")):
            tables = [test for test in tests if test.split("/")[1] in TABLES]
            tables.sort(key=lambda test: not test.endswith("test_numpy.py"))
            yield [*tables, "-k", " or ".join(names)]
        yield tests[:6]
        for start in range(6, len(tests), 20):
            yield tests[start : start + 20]

    def catching(self, place: Place, name: str) -> str:
        """Return what became of a change, made in the copy of this name."""
        copy, left = self.copied(name), self.limit
        path = copy / place.file
        path.write_bytes(place.applied(path.read_bytes()))
        for batch in self.batches(place):
            test, left = self.failing(copy, batch, left)
            if test is not None:
                return f"caught by {test}"
        if self.run(copy, ["-m", "pytest", *PYTEST, place.file], 60)[0] not in (0, NONE_CHOSEN, SPENT):
            return "caught by its doctests"
        return "SURVIVED" if left > 0 else "SURVIVED until its time was spent"

    def check_imports(self) -> None:
        """Raise an error if a copy imports its packages from elsewhere."""
        copy = self.copied("0")
        code = "import burnpy, burnpy_array, burnpy_numpy; print(burnpy, burnpy_array, burnpy_numpy)"
        text = self.run(copy, ["-c", code], 60)[1]
        if text.count(f"{copy}{os.sep}") != 3:
            raise SystemExit(f"the copy in {copy} does not import its own packages: {text}")


def main(options: argparse.Namespace) -> None:
    """Print a line for each place, and how many of each kind were caught."""
    chosen = picked(list(found_in(options.pick_from or options.root)), options.count, options.seed)
    present = {place: place for place in found_in(options.root)}
    folders = sorted(p for p in (options.root / "tests").iterdir() if p.is_dir())
    paths = options.tests or [f"tests/{p.name}" for p in folders if options.all or p.name not in NOT_BY_DEFAULT]
    caught, counted = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as executor:
        work = (options.work or Path(temporary)).resolve()
        suite, names = Suite(options.root.absolute(), paths, work, options.limit), SimpleQueue[str]()
        suite.check_imports()
        for k in range(options.jobs):
            names.put(str(k))

        def outcome(k: int) -> None:
            place = present.get(chosen[k])
            name = names.get()
            said = "absent" if place is None else suite.catching(place, name)
            names.put(name)
            counted[chosen[k].kind] += place is not None
            caught[chosen[k].kind] += said.startswith("caught")
            where = f"{chosen[k].file} {chosen[k].function}: {chosen[k].before} -> {chosen[k].after}"
            print(f"{k:2} | {chosen[k].kind} | {where} | {chosen[k].line[:100]} | {said}", flush=True)

        list(executor.map(outcome, options.only or range(len(chosen))))
    for kind in counted:
        print(f"{kind}: {caught[kind]} of {counted[kind]} caught")
    print(f"all: {caught.total()} of {counted.total()} caught")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60, help="the number of places")
    parser.add_argument("--only", type=int, nargs="+", metavar="K", help="of those, these")
    parser.add_argument("--root", type=Path, default=HERE, help="the tree that is changed and tested")
    parser.add_argument("--pick-from", type=Path, help="the tree whose places are picked; else the same")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="files and folders of tests")
    parser.add_argument("--all", action="store_true", help="with the slow folders that concern few places")
    parser.add_argument("--jobs", type=int, default=1, help="the number of processes")
    parser.add_argument("--work", type=Path, help="a folder for copies and caches, which the next run finds again")
    parser.add_argument("--limit", type=float, default=240, help="seconds of processor time for a place")
    main(parser.parse_args())
