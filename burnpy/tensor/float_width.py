"""A check for tensors of a wider float dtype than expected, which would silently make later results wide and slow."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import DTypeError
from burnpy.backend.primitives import DType


def refuse_wider(operation: str, basis: str, dtype: DType, **tensors: Any) -> None:
    """Check that no float tensor makes an operation compute in a wider dtype than ``dtype``.

    Narrower tensors are promoted; a 0-d tensor does not promote others, and may have any dtype.

    Args:
        operation: the name of the operation.
        basis: the description of the tensors that decide the dtype: "weights", "a prediction".
        dtype: the dtype of these tensors.
        tensors: the tensors to check, by name; values that are not float tensors are skipped.

    Raises:
        DTypeError: a tensor is wider.
    """
    for name, x in tensors.items():
        if getattr(x, "kind", "") != "float" or x.dtype == dtype or not x.ndim:
            continue
        promoted = promote_types(x.dtype, dtype)
        if promoted != dtype:
            raise DTypeError(
                f"{operation}() got {name} of dtype {x.dtype} for {basis} of dtype {dtype}, and would compute in "
                f'{promoted} from there on; write {name}.to_dtype("{dtype}"), or make it so: '
                f'Tensor.from_data(values, dtype="{dtype}")'
            )
