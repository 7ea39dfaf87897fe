"""Collection of tests: which are left out, with a sentence that says why, and in which order the others run."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import time
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from tests.generators import Generators, module_of
from tests.interrupting import LONG

gc.disable()  # it would look through thousands of new modules and tests, which all stay, until these are collected

MARKERS = ("heavy", "long", "parity", "slowest")

LONGEST = (
    "tests/distributed/test_ranks.py",
    "tests/distributed/test_workers.py",
    "tests/distributed/test_elastic.py",
    "tests/distributed/test_learning.py",
    "tests/docs/test_recipes.py",
    "tests/examples/",
    "tests/data/test_processes.py",
    "tests/train/",
    "tests/benchmarks/",
    "tests/record/test_interrupted.py",
    "tests/optim/test_memory.py",
    "tests/programs/test_targets.py",
    "tests/parity/test_op_db.py",
)
"""The files and folders whose tests take longest, in the order in which they run: before all others."""

GENERATORS = pytest.StashKey[Generators]()
"""The generators of the test modules, with their states after the imports."""

HEAVY_DOCTESTS = {
    "burnpy/data/sources.py": "pyarrow",
    "burnpy/einops.py": "einops",
    "burnpy/interop/onnx/exporting.py": "onnx",
    "burnpy/interop/onnx/importing.py": "onnx",
    "burnpy/models/pretrained.py": "tokenizers",
}
"""Modules whose doctests need what is heavy to install."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a test that the command line chooses or, where it is 0, ``BURNPY_HEAVY_TESTS`` lets run."""
    without_heavy = os.environ.get("BURNPY_HEAVY_TESTS") == "0"
    if collection_path.name in ("hostcuda", "parity") and without_heavy:
        return True
    chosen = config.option.markexpr
    if collection_path.suffix != ".py" or not (chosen or without_heavy):
        return None
    text = collection_path.read_text(encoding="utf-8")
    whole = "".join(re.findall(r"^pytestmark = .*", text, re.MULTILINE))
    if without_heavy and "mark.heavy(" in whole:
        return True
    if chosen in ("not slow", "not slowest"):  # the slowest are slow, too
        return True if f"mark.{chosen.removeprefix('not ')}" in whole else None
    # pytest also passes files beside the root, which relative_to() refuses.
    file = os.path.relpath(collection_path, config.rootpath).replace(os.sep, "/")
    marked_here = {"heavy": file in HEAVY_DOCTESTS, "parity": file.startswith("tests/parity/")}
    if chosen not in MARKERS or marked_here.get(chosen):
        return None
    return None if f"mark.{chosen}" in text else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is long or heavy, and put the longest tests first, so that no worker ends alone with one of them."""
    draw_without_constants()
    ranks: dict[str, list[bool]] = {}
    for item in items:
        if re.search(r" at 0x[0-9a-f]+", item.name):
            raise pytest.UsageError(
                f"{item.nodeid} has an address in its name, which differs in each worker; write ids="
            )
        file = item.nodeid.partition("::")[0]
        if file not in ranks:
            ranks[file] = [file.startswith(name) for name in LONGEST]
        if item.get_closest_marker("slowest"):
            item.add_marker(pytest.mark.slow)
        if file.startswith("tests/parity/"):
            item.add_marker(pytest.mark.parity)
        if file in HEAVY_DOCTESTS:
            item.add_marker(pytest.mark.heavy(HEAVY_DOCTESTS[file]))
        if reason := left_out(item, config):
            item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: ranks[item.nodeid.partition("::")[0]], reverse=True)


def draw_without_constants() -> None:
    """Let hypothesis draw no constants that it reads in the sources of all imported modules: which these are depends on
    the tests before, and so would the examples. To parse the modules takes seconds."""
    providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


is_installed = cache(lambda module: find_spec(module) is not None)


def left_out(item: pytest.Item, config: pytest.Config) -> str:
    """Return why a test does not run here; nothing where it runs."""
    needed: list[tuple[str, str]] = []
    for mark in item.iter_markers():
        if mark.name == "long" and not (LONG or "long" in config.option.markexpr or named(item, config)):
            return "takes minutes: `make test-long` runs it"
        needed += [(module, "test-heavy") for module in mark.args if mark.name == "heavy"]
        needed += [("torch", "test-parity")] if mark.name == "parity" else []
    for module, target in needed:
        if os.environ.get("BURNPY_HEAVY_TESTS") == "0" or not is_installed(module):
            return f"needs {module}: `make {target}` installs it and runs this"
    return ""


def named(item: pytest.Item, config: pytest.Config) -> bool:
    """Return whether the command line names a test, as in ``tests/file.py::test``."""
    return any("::" in argument and item.nodeid.startswith(argument) for argument in config.args)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let property tests try the same examples in every run, and take their time: hypothesis' own profile for CI.

    Let Ctrl-C interrupt tests, and the programs that they start, in the background too, where shells let it be ignored.
    """
    if getattr(config.option, "hypothesis_profile", "") is None:
        config.option.hypothesis_profile = "ci"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker whether bytecode is missing, before any worker writes some."""
    folder = Path(__file__).parent / ("parity" if node.config.option.markexpr == "parity" else "tensor")
    node.workerinput["bytecode"] = sys.dont_write_bytecode or any(folder.glob("__pycache__/test_*.pyc"))


def first_has_collected(config: pytest.Config) -> Path | None:
    """Return the file by which the first worker says that it has collected; None if the others need not wait for it."""
    given = getattr(config, "workerinput", {"bytecode": True})
    return None if given["bytecode"] else Path(gettempdir(), f"burnpy-tests-{given['testrunuid']}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let the first worker compile all modules if bytecode is missing, while the others wait for it."""
    file = first_has_collected(session.config)
    if file is not None and os.environ["PYTEST_XDIST_WORKER"] != "gw0":
        end = time.monotonic() + 180.0
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Remember the generators, and put the tests out of the garbage collector's sight, which would look through all of
    them again and again. By default its passes take a twentieth of the processor time, so they are rarer."""
    modules = {module for item in session.items if (module := module_of(item))}
    session.config.stash[GENERATORS] = Generators(modules)
    if (file := first_has_collected(session.config)) and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
        file.touch()
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Restore the generators that a test may draw from."""
    item.config.stash[GENERATORS].restore(module_of(item))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the file of the first worker."""
    if file := first_has_collected(config):
        file.unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skipped tests by reason, above the failures, which stay in the last lines."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests", sep="-")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} × {reason}")
