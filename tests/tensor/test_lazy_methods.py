"""Methods that are loaded at first use: found as if they had been there, and loaded once; generated files are fresh."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnpy import BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.docs import generated_code
from burnpy.tensor.lazy_methods import METHODS
from burnpy.tensor.tensor_base import LazyMethod, lazy_classes
from tests.rows import every_row

KINDS: tuple[Any, ...] = (Tensor, IntTensor, BoolTensor, ComplexTensor)


def families_of(cls: type) -> dict[str, list[str]]:
    """The public methods that a class of tensors loads at first use, by family."""
    bases = {base.__name__ for base in cls.__mro__}
    return {
        path: [name for name in names.split() if not name.startswith("_")]
        for path, names in METHODS.items()
        if path.partition(".")[2] in bases
    }


LOADED = [(cls, path, name) for cls in KINDS for path, names in families_of(cls).items() for name in names]


def run(program: str) -> str:
    """What a program prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_docstring_of_a_declaration_becomes_the_methods() -> None:
    assert Tensor.log2.__doc__ == Backend.log2.__doc__
    assert Tensor.copysign.__doc__ == str(Backend.copysign.__doc__).replace("``y``", "``other``")


@pytest.mark.parametrize(
    "declared",
    [
        "def where(self, condition: Bool, x: Value, y: Value) -> Value: ...",
        "def clamp(self, x: Float, low: Scalar | None) -> Float: ...",
        "def to_int(self, x: Float) -> Int: ...",
    ],
)
def test_an_operation_of_other_arguments_is_no_method_by_declaration(
    declared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "family.py").write_text(f"@derived(POINTWISE, method=True)\n{declared}\n", encoding="utf-8")
    monkeypatch.setattr(generated_code, "OPERATIONS", tmp_path)
    with pytest.raises(TypeError, match=r"is declared with method=True and takes .*: write a method in burnpy/tensor"):
        generated_code.declared()


def test_a_family_is_imported_at_the_first_use_of_one_of_its_methods() -> None:
    printed = run(
        """
import sys
from burnpy import IntTensor, Tensor
from burnpy.backend import NumPy
families = lambda: [n for n in ("gathering", "scattering") if f"burnpy.tensor.{n}" in sys.modules]
x = Tensor[NumPy].ones((2, 2))
print(families(), "gather" in dir(Tensor), "gather" in dir(x), hasattr(Tensor, "no_such_method"))
print(families(), x.gather(0, IntTensor[NumPy].zeros((1, 2))).tolist())
print(families())
"""
    )
    assert printed.splitlines() == ["[] True True False", "[] [[1.0, 1.0]]", "['gathering']"]


def test_a_method_is_loaded_once_for_each_kind() -> None:
    for cls in KINDS:
        method = cls.gather
        assert vars(cls)["gather"] is method is cls.gather
        assert method.__qualname__ == f"{cls.__name__}.gather"
        assert method.__module__ == cls.__module__
    assert KINDS[0].gather is not KINDS[1].gather


@every_row(("cls", "path", "name"), LOADED)
def test_signatures_and_docstrings_are_those_that_are_written(cls: Any, path: str, name: str) -> None:
    module, family = path.split(".")
    written = LazyMethod(f"burnpy.tensor.{module}", family, name).load()
    method = getattr(cls, name)
    if isinstance(written, classmethod):
        written = written.__get__(None, cls)
    assert inspect.signature(method) == inspect.signature(written)
    assert method.__doc__ == written.__doc__
    assert method.__doc__.splitlines()[0] in pydoc.plain(pydoc.render_doc(method))


@every_row("cls", KINDS)
def test_no_name_of_a_kind_is_in_two_families_or_written_elsewhere_too(cls: type) -> None:
    names = [name for family in families_of(cls).values() for name in family]
    assert len(names) == len(set(names))
    for base in cls.__mro__[1:]:
        plain = {name for name, value in vars(base).items() if not isinstance(value, LazyMethod)}
        if base.__module__ != "burnpy.tensor.tensor_base":  # which has the names that PyTorch has besides
            assert not plain & set(names), base


def test_help_shows_methods_that_are_not_loaded() -> None:
    printed = run("from burnpy import Tensor; help(Tensor)")
    assert "Return the elements of x at ``index`` along ``dim``" in printed
    assert "LazyMethod" not in printed


def test_properties_and_factories_can_be_loaded_at_first_use_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from burnpy.tensor import creation

    class Written:
        @property
        def third(self) -> int:
            return 3

        @classmethod
        def made(cls, shape: int) -> Any:
            return cls, shape

    monkeypatch.setattr(creation, "Written", Written, raising=False)
    stand_in = lazy_classes({"creation.Written": "third made"})["Written"]
    for name in ("third", "made"):
        monkeypatch.setattr(Tensor, name, vars(stand_in)[name], raising=False)
    x: Any = Tensor[NumPy].ones(2)
    cls: Any = Tensor
    assert x.third == 3
    assert cls.made(2) == (Tensor, 2)
    assert cls[NumPy].made(2) == (cls[NumPy], 2)
    with pytest.raises(TypeError, match=r"made\(\) does not take size; it is called shape"):
        cls.made(size=2)
