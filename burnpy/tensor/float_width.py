"""Floats wider than what they meet: one of them makes all that follows wide, and slow, without a word."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import DTypeError
from burnpy.backend.primitives import DType


def refuse_wider(operation: str, basis: str, dtype: DType, **given: Any) -> None:
    """Refuse float tensors with which an operation would compute in a wider dtype than it is to.

    What is narrower is promoted; a 0-d tensor promotes nothing, and may be of any dtype.

    Args:
        operation: what they were given to.
        basis: what says how wide it is to compute, in words: "weights", "a prediction".
        dtype: of that.
        given: the others by name; what is no float tensor is passed over.

    Raises:
        DTypeError: one is wider.
    """
    for name, x in given.items():
        if getattr(x, "kind", "") != "float" or x.dtype == dtype or not x.ndim:
            continue
        found = promote_types(x.dtype, dtype)
        if found != dtype:
            raise DTypeError(
                f"{operation}() was given {name} of dtype {x.dtype} for {basis} of dtype {dtype}, and would compute in "
                f'{found} from there on; write {name}.to_dtype("{dtype}"), or make it so: '
                f'Tensor.from_data(values, dtype="{dtype}")'
            )
