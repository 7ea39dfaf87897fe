"""For pytest: ``-p tests.hostcuda.plugin`` puts the CPU under CuPy before any test imports it.

With ``--rehearse`` every test runs dry, whatever comes of it, so that the kernels that it needs are noted; in the end
they are compiled, a hundred at a time.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np
import pytest

from burnpy.testing import checks, promotion
from tests.hostcuda import compile as kernels
from tests.hostcuda import simulator

_gradcheck = import_module("burnpy.testing.gradcheck")  # the package has a function of that name


def pytest_configure() -> None:
    """Load the simulator."""
    simulator.load()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name the option."""
    parser.addoption("--rehearse", action="store_true", help="run all tests dry and compile the kernels that they need")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rehearse where that is asked for."""
    if session.config.getoption("rehearse"):
        session.config.pluginmanager.register(Rehearsal())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip operations that the kit cannot execute."""
    from tests.hostcuda.dry import NOT_EXECUTED

    for item in items:
        if getattr(getattr(item, "callspec", None), "params", {}).get("name") in NOT_EXECUTED:
            item.add_marker(pytest.mark.skip(reason="the kit has no cuSOLVER"))


class Rehearsal:
    """Runs tests to see which kernels they launch."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Nothing is computed, so that what is compared is never alike, and must not end the test."""
        with ExitStack() as stack:
            for owner, name, stands_for in _COMPARISONS:
                stack.enter_context(mock.patch.object(owner, name, stands_for))
            stack.enter_context(np.errstate(all="ignore"))
            stack.enter_context(simulator.dry_run())
            with suppress(BaseException):
                yield
        return True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Compile."""
        count = kernels.compile_noted()
        terminalreporter.write_line(f"compiled {count} of {len(kernels.noted)} kernels")


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a comparison that raises, or names a difference."""


def _one_direction(generator: Any, shape: tuple[int, ...], elements: int) -> list[tuple[str, Any]]:
    return [("all", np.ones(shape))] if 0 not in shape else []


_COMPARISONS: list[tuple[Any, str, Any]] = [
    (checks, "difference", _nothing),
    (promotion, "difference", _nothing),
    (_gradcheck, "_same", lambda *_: True),
    (_gradcheck, "_compare", _nothing),
    (_gradcheck, "_check_undefined", _nothing),
    (_gradcheck, "_directions", _one_direction),
    (np, "array_equal", lambda *_, **__: True),
    (np, "shares_memory", lambda *_: False),
]
