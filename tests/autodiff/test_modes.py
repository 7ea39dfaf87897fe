"""Modes: what they silence, where they end, and that they cost nothing when they change nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextvars import copy_context
from typing import Any, TypeAlias

import pytest

from burnpy import Autodiff, Tensor, func
from burnpy.autodiff import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from burnpy.autodiff.recording import current_mode
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError

Train: TypeAlias = Autodiff[NumPy]


@pytest.fixture
def x() -> Tensor[Train]:
    return Tensor[Train].from_data([1.0, 2.0]).require_grad()


def recorded(x: Tensor[Train]) -> bool:
    found = {
        (x * 2).is_require_grad(),
        (x + x).is_require_grad(),
        (x * Tensor[Train].ones((3, 1))).is_require_grad(),
        x.softmax(0).is_require_grad(),
        x[0].is_require_grad(),
    }
    assert len(found) == 1, "operations disagree about the mode"
    return found.pop()


@pytest.mark.parametrize("switch", [no_grad, inference_mode], ids=["no_grad", "inference_mode"])
def test_nothing_is_recorded_within_and_all_is_after(switch: Callable[[], Any], x: Tensor[Train]) -> None:
    with switch():
        assert not recorded(x)
        assert not is_grad_enabled()
    assert recorded(x)


def test_modes_nest_and_end_where_they_began(x: Tensor[Train]) -> None:
    with no_grad():
        with enable_grad():
            assert recorded(x)
            with set_grad_enabled(False):
                assert not recorded(x)
            assert recorded(x)
        assert not recorded(x)
    assert recorded(x)


def test_the_mode_before_comes_back_after_an_exception(x: Tensor[Train]) -> None:
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert recorded(x)
    assert current_mode() is None


def test_set_grad_enabled_is_a_function_too(x: Tensor[Train]) -> None:
    set_grad_enabled(False)
    assert not recorded(x)
    set_grad_enabled(True)
    assert recorded(x)
    assert current_mode() is None, "a mode that changes nothing must cost nothing"


def test_inference_mode_can_be_told_off(x: Tensor[Train]) -> None:
    with inference_mode():
        assert is_inference_mode_enabled()
        with inference_mode(False):
            assert not is_inference_mode_enabled()
            assert recorded(x)
    with inference_mode(mode=False):
        assert recorded(x)


DECORATORS: dict[str, Callable[[], Any]] = {
    "@no_grad": lambda: no_grad,
    "@no_grad()": no_grad,
    "@inference_mode": lambda: inference_mode,
    "@set_grad_enabled(False)": lambda: set_grad_enabled(False),
}


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS.keys())
def test_functions_are_decorated_with_parentheses_and_without(decorator: Callable[[], Any], x: Tensor[Train]) -> None:
    @decorator()  # type: ignore[untyped-decorator]  # several kinds of decorators in one test
    def f(scale: float) -> bool:
        """Documented."""
        return recorded(x * scale)

    assert f(2.0) is False
    assert f.__doc__ == "Documented."
    assert recorded(x)


def test_generators_keep_the_mode_to_themselves(x: Tensor[Train]) -> None:
    ended = []

    @no_grad
    def steps() -> Generator[bool, None, None]:
        try:
            yield recorded(x)
            yield recorded(x)
        finally:
            ended.append(recorded(x))

    running = steps()
    assert next(running) is False
    assert recorded(x), "the mode leaked out of a suspended generator"
    assert next(running) is False
    running.close()
    assert ended == [False]
    assert recorded(x)


def test_generators_are_sent_to_thrown_into_and_return(x: Tensor[Train]) -> None:
    @no_grad()
    def conversation() -> Any:
        got = yield recorded(x)
        try:
            yield got
        except ValueError:
            yield recorded(x)
        return "done"

    running = conversation()
    assert next(running) is False
    assert running.send("hello") == "hello"
    assert running.throw(ValueError()) is False
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "done"


def test_coroutines_keep_the_mode_to_themselves(x: Tensor[Train]) -> None:
    @no_grad
    async def quiet(turns: int) -> list[bool]:
        seen = []
        for _ in range(turns):
            seen.append(recorded(x))
            await asyncio.sleep(0)
        return seen

    async def loud(turns: int) -> list[bool]:
        seen = []
        for _ in range(turns):
            seen.append(recorded(x))
            await asyncio.sleep(0)
        return seen

    @no_grad
    async def items() -> AsyncIterator[bool]:
        yield recorded(x)
        yield recorded(x)

    async def main() -> tuple[list[bool], list[bool], list[bool]]:
        one, two = await asyncio.gather(quiet(3), loud(3))
        return one, two, [item async for item in items()]

    assert asyncio.run(main()) == ([False] * 3, [True] * 3, [False] * 2)


def test_asynchronous_generators_are_sent_to_and_thrown_into(x: Tensor[Train]) -> None:
    closed: list[bool] = []

    @no_grad
    async def items() -> AsyncGenerator[Any, Any]:
        try:
            sent = yield recorded(x)
            try:
                yield sent, recorded(x)
            except ValueError:
                yield "caught", recorded(x)
            yield "more"
        finally:
            closed.append(recorded(x))

    async def main() -> list[Any]:
        running = items()
        found = [await anext(running), recorded(x), await running.asend("hello")]
        found.append(await running.athrow(ValueError()))
        await running.aclose()
        return [*found, recorded(x)]

    assert asyncio.run(main()) == [False, True, ("hello", False), ("caught", False), True]
    assert closed == [False]


def entered_and_left(switch: Any) -> None:
    with switch:
        pass


def test_one_switch_in_several_contexts(x: Tensor[Train]) -> None:
    """Each context that enters a switch restores its own mode, and a switch can be entered repeatedly."""
    quiet = no_grad()
    seen: list[tuple[bool, bool]] = []

    async def within(outer: bool, turns: int) -> None:
        with set_grad_enabled(outer):
            with quiet, quiet:
                for _ in range(turns):
                    await asyncio.sleep(0)
                assert not recorded(x)
            seen.append((outer, recorded(x)))

    async def main() -> None:
        await asyncio.gather(within(True, 1), within(False, 3), within(True, 5))

    asyncio.run(main())
    assert seen == [(True, True), (False, False), (True, True)]
    context = copy_context()
    context.run(entered_and_left, quiet)
    assert not [var for var in context if var.name == "no_grad"], "an entry stayed in the context"


def test_what_cannot_be_decorated_and_what_is_no_flag() -> None:
    class Model:
        pass

    decorators: list[Any] = [no_grad, no_grad(), enable_grad, inference_mode, set_grad_enabled(True), detect_anomaly()]
    for decorator in decorators:
        with pytest.raises(KindError, match=r"^[a-z_]+ decorates functions and methods, not <class"):
            decorator(Model)
    with pytest.raises(KindError, match="no_grad decorates functions and methods, not 3"):
        decorators[0](3)
    switches: list[Any] = [inference_mode, set_grad_enabled, set_detect_anomaly]
    for switch in switches:
        with pytest.raises(KindError, match=rf"{switch.__name__}\(mode\) takes True or False, not 'no'"):
            switch("no")


def test_settings_decorate_and_leave_the_rest_alone(x: Tensor[Train]) -> None:
    @set_detect_anomaly(True)
    def watched() -> bool:
        return is_anomaly_enabled()

    @set_grad_enabled(False)
    def quiet() -> bool:
        return recorded(x)

    assert (watched(), is_anomaly_enabled()) == (True, False)
    assert (quiet(), recorded(x)) == (False, True)


def test_modes_are_of_their_own_thread(x: Tensor[Train]) -> None:
    seen: list[bool] = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(recorded(x)))
        thread.start()
        thread.join()
    assert seen == [True]


def test_levels_made_within_still_differentiate(x: Tensor[Train]) -> None:
    def square(y: Tensor[NumPy]) -> Tensor[NumPy]:
        return (y * y).sum()

    with no_grad():
        assert func.grad(square)(Tensor[NumPy].from_data([3.0])).tolist() == [6.0]


def test_all_levels_of_a_nested_device_are_silent() -> None:
    z = Tensor[Autodiff[Autodiff[NumPy]]].from_data([2.0]).require_grad()
    with no_grad():
        y = z * z
    assert not y.is_require_grad()
    assert not y.inner().is_require_grad()
