"""Devices: one for each backend and set of arguments, found from classes, aliases and type statements."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from burnpy import Autodiff
from burnpy.autodiff import Balanced, Forward
from burnpy.backend import Backend, Checked, NumPy, Profiled, device_of
from burnpy.backend.errors import DeviceError
from burnpy_array import ArrayBackend
from tests.rows import every_row


def test_numpy_is_one_device() -> None:
    assert NumPy() is NumPy() is NumPy.device()
    assert NumPy.is_available()
    assert Autodiff[NumPy].is_available()
    assert repr(NumPy()) == NumPy().name == "NumPy"
    assert NumPy().discrete is NumPy()
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: id(NumPy()), range(64)))) == 1


def test_an_unregistered_device_is_nobody_elses() -> None:
    alone = NumPy.unregistered()
    assert alone is not NumPy()
    assert NumPy() is NumPy()


@every_row(
    "device, inner, differentiates, in_place",
    [
        (NumPy, None, False, True),
        (Profiled[NumPy], NumPy, False, True),
        (Checked[NumPy], NumPy, False, False),
        (Profiled[Checked[NumPy]], Checked[NumPy], False, False),
        (Autodiff[NumPy], NumPy, True, True),
        (Autodiff[Profiled[Checked[NumPy]]], Profiled[Checked[NumPy]], True, False),
        (Autodiff[Balanced[NumPy]], NumPy, True, True),
        (Forward[Autodiff[NumPy]], Autodiff[NumPy], True, True),
    ],
    ids=str,
)
def test_what_a_device_says_of_itself(device: Any, inner: Any, differentiates: bool, in_place: bool) -> None:
    device = device_of(device)
    assert device.inner is (None if inner is None else device_of(inner))
    assert (device.differentiates, device.in_place_updates, device.level) == (differentiates, in_place, 0)
    x = (device.inner or device).from_numpy(np.ones(2))
    lifted = device.lift(x)
    assert (lifted is x) is not differentiates
    assert device.lower(lifted) is x
    assert device.to_numpy(lifted).tolist() == [1.0, 1.0]


def test_devices_travel_by_name() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(NumPy(), protocol)) is NumPy()
    assert copy.copy(NumPy()) is copy.deepcopy(NumPy()) is NumPy()


def test_what_names_a_device() -> None:
    alias = TypeAliasType("alias", NumPy)
    nested = TypeAliasType("nested", alias)
    names: list[Any] = [NumPy, NumPy(), alias, nested]
    for given in names:
        assert device_of(given) is NumPy()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is of Python 3.12")
def test_the_type_statement() -> None:
    scope: dict[str, Any] = {"NumPy": NumPy}
    exec("type Train = NumPy", scope)
    assert device_of(scope["Train"]) is NumPy()


@pytest.mark.parametrize("given", [int, "NumPy", None, 3])
def test_what_does_not(given: Any) -> None:
    with pytest.raises(DeviceError, match="is not a backend; pass a backend class such as NumPy"):
        device_of(given)


def test_an_incomplete_backend_is_refused_by_name() -> None:
    class Half(ArrayBackend):
        pass

    with pytest.raises(DeviceError, match=r"Half does not write the required operations from_numpy, to_numpy"):
        Half()


def test_numpy_writes_every_required_operation_and_documents_it() -> None:
    import inspect

    from burnpy.backend import operations

    for name, operation in operations().items():
        written = getattr(NumPy, name)
        assert written is not operation.function or not operation.required
        assert inspect.getdoc(written), name
        assert written.__name__ == name
        assert list(inspect.signature(written).parameters) == ["self", *(a.name for a in operation.arguments)], name


def test_backends_are_documented_subclasses() -> None:
    assert issubclass(NumPy, Backend)
    assert NumPy.__doc__


@pytest.mark.slowest
@pytest.mark.parametrize("setting", ["0", "1"])
def test_the_allocator_can_be_left_alone(setting: str) -> None:
    code = (
        "import burnpy_numpy.allocator as a, os; from burnpy.backend import NumPy; NumPy(); "
        "assert os.environ['BURNPY_MALLOPT'] != '0' or not a.keep_freed_memory()"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "BURNPY_MALLOPT": setting}).returncode == 0


def test_no_glibc_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy_numpy import allocator

    class Musl:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Musl())
    assert allocator.keep_freed_memory() is False


@pytest.mark.parametrize(("most", "set_to"), [(1 << 40, 256 << 20), (32 << 20, 32 << 20), (0, None)])
def test_an_older_glibc_takes_less(most: int, set_to: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy_numpy import allocator

    taken: dict[int, int] = {}

    def mallopt(parameter: int, value: int) -> int:
        if parameter == -3 and value > most:
            return 0
        taken[parameter] = value
        return 1

    glibc = SimpleNamespace(gnu_get_libc_version=None, mallopt=mallopt)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: glibc)
    monkeypatch.delenv("BURNPY_MALLOPT", raising=False)
    assert allocator.keep_freed_memory() is (set_to is not None)
    assert taken.get(-3) == set_to
    assert taken[-1] == 512 << 20


def test_the_numpy_backend_is_cheap_to_import() -> None:
    code = "import sys; from burnpy.backend import NumPy; NumPy(); sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
