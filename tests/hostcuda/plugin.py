"""For pytest: ``-p tests.hostcuda.plugin`` puts the CPU under CuPy before any test imports it.

A test that needs a kernel that is not compiled goes on dry from there, which lists all its kernels, and is
postponed. Once these are many, they are compiled in one go, and the postponed tests run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from burnpy.testing import checks
from burnpy_cupy.deferred_checks import LateErrors
from tests.hostcuda import compile as kernels
from tests.hostcuda import simulator

_gradcheck = import_module("burnpy.testing.gradcheck")  # the package has a function of that name


def pytest_configure(config: pytest.Config) -> None:
    """Load the simulator."""
    simulator.load()
    config.pluginmanager.register(Postponing())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip operations that the kit cannot execute."""
    from tests.hostcuda.dry import NOT_EXECUTED

    for item in items:
        if getattr(getattr(item, "callspec", None), "params", {}).get("name") in NOT_EXECUTED:
            item.add_marker(pytest.mark.skip(reason="the kit has no cuFFT"))


TRIES = 3
"""How often a test is postponed at most."""


class Postponing:
    """Runs each test once its kernels are compiled."""

    def __init__(self) -> None:
        self.postponed: list[pytest.Item] = []
        self.tries: Counter[pytest.Item] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test or postpone it; run the postponed ones when there are many kernels, and in the end."""
        if self.tries[item] == TRIES:  # it may end early without results, so that one kernel after the other is met
            _log(item, runtestprotocol(item, log=False, nextitem=nextitem))
            return True
        with simulator.postponing() as met:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if met:
            self.postponed.append(item)
            self.tries[item] += 1
            _forget()
        else:
            _log(item, reports)
        if self.postponed and (nextitem is None or len(kernels.lacking()) >= kernels.BATCH):
            item.session._setupstate.teardown_exact(None)  # which the next test may share with this one
            kernels.compile_wanted()
            again, self.postponed = self.postponed, []
            for test, after in zip(again, [*again[1:], None], strict=True):
                test.ihook.pytest_runtest_protocol(item=test, nextitem=after)  # with the filters of its own warnings
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Let a test go on when nothing is computed any more: what is compared then is never alike."""
        with ExitStack() as stack:
            for owner, name, stands_for in _COMPARISONS:
                stack.enter_context(mock.patch.object(owner, name, _unless_dry(getattr(owner, name), stands_for)))
            try:
                result = yield
                found = {each for each in simulator.divergences() if not each.startswith("cupy_")}  # CuPy's scans do
                assert not found, f"threads diverge at a barrier: {'; '.join(sorted(found))}"
                return result
            except BaseException:
                if simulator.is_dry():
                    return True
                raise


def _forget() -> None:
    """Drop the constants that the library keeps for a device: those that were made dry hold no numbers."""
    for module in filter(
        None, map(sys.modules.get, ("burnpy.nn.buffer_updates", "burnpy.nn.layers.positional_encoding"))
    ):
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


def _log(item: pytest.Item, reports: list[pytest.TestReport]) -> None:
    """Report a test, whose index xdist's worker sends with the reports."""
    with ExitStack() as stack:
        for plugin in item.config.pluginmanager.get_plugins():
            if hasattr(plugin, "item_index"):
                stack.enter_context(mock.patch.object(plugin, "item_index", item.session.items.index(item)))
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _unless_dry(function: Any, stands_for: Any) -> Any:
    return lambda *args, **keywords: (stands_for if simulator.is_dry() else function)(*args, **keywords)


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a comparison that raises, or names a difference."""


def _one_direction(generator: Any, shape: tuple[int, ...], elements: int) -> list[tuple[str, Any]]:
    return [("all", np.ones(shape))] if 0 not in shape else []


_COMPARISONS: list[tuple[Any, str, Any]] = [
    (checks, "difference", _nothing),
    (np.testing, "assert_allclose", _nothing),
    (np.testing, "assert_array_equal", _nothing),
    (_gradcheck, "_same", lambda *_: True),
    (_gradcheck, "_compare", _nothing),
    (_gradcheck, "_check_undefined", _nothing),
    (_gradcheck, "_directions", _one_direction),
    (np, "array_equal", lambda *_, **__: True),
    (np, "shares_memory", lambda *_: False),
    (LateErrors, "answer", lambda late: late._waiting.clear()),
]
