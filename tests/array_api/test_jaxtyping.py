"""jaxtyping's annotations of shapes and dtypes, checked by beartype when functions and modules are called."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

import pytest

from burnpy import Autodiff, Backend, BoolTensor, IntTensor, Tensor, bfloat16, func
from burnpy.backend import NumPy

pytestmark = pytest.mark.heavy("jaxtyping", "beartype")

B = TypeVar("B", bound=Backend)
TENSORS: Any = Tensor


def checked(function: Any, **annotations: Any) -> Any:
    """The function, called with checks of these annotations."""
    function.__annotations__ = {name.rstrip("_"): annotation for name, annotation in annotations.items()}
    return import_module("jaxtyping").jaxtyped(function, typechecker=import_module("beartype").beartype)


@pytest.mark.parametrize("tensor", [Tensor, TENSORS[B], Tensor[NumPy]])  # type checkers compare backends
def test_sizes_are_those_of_other_arguments(tensor: Any) -> None:
    types: Any = import_module("jaxtyping")

    def product(x: Any, weight: Any) -> Any:
        return x @ weight

    inputs, outputs = types.Float[tensor, "batch inputs"], types.Float[tensor, "batch outputs"]
    product = checked(product, x=inputs, weight=types.Float[tensor, "inputs outputs"], return_=outputs)
    x, weight = Tensor[NumPy].ones((2, 3)), Tensor[NumPy].ones((3, 4))
    assert product(x, weight).shape == (2, 4)
    for wrong in (weight.mT, weight[0], weight.int(), weight.to_numpy()):
        with pytest.raises(types.TypeCheckError, match="parameter 'weight'"):
            product(x, wrong)
    assert func.grad(lambda x: product(x, weight).sum())(x).shape == (2, 3)
    assert func.vmap(lambda x: product(x, weight))(x.expand((5, 2, 3))).shape == (5, 2, 4)


def test_kinds_and_dtypes() -> None:
    types: Any = import_module("jaxtyping")
    tensors: dict[str, Any] = {
        "Float32": Tensor[NumPy].ones((2, 3)),
        "Float64": Tensor[Autodiff[NumPy]].ones((2, 3), dtype="float64"),
        "Float16": Tensor[NumPy].ones((2, 3), dtype="float16"),
        "BFloat16": Tensor[NumPy].ones((2, 3), dtype=bfloat16),
        "Int64": IntTensor[NumPy].ones((2, 3)),
        "UInt8": IntTensor[NumPy].ones((2, 3), dtype="uint8"),
        "Bool": BoolTensor[NumPy].ones((2, 3)),
    }
    families = {"Float": ("Float",), "Int": ("Int",), "UInt": ("UInt",), "Integer": ("Int", "UInt"), "Bool": ("Bool",)}
    for name, x in tensors.items():
        for other in tensors:
            assert isinstance(x, getattr(types, other)[type(x), "2 3"]) == (name == other)
        for family, members in families.items():
            expected = name.removeprefix("B").startswith(members) or name.startswith(members)
            assert isinstance(x, getattr(types, family)[type(x), "rows 3"]) == expected, (name, family)
        assert isinstance(x, types.Shaped[type(x), "... columns"])
        assert not isinstance(x, types.Shaped[type(x), "2 4"])
