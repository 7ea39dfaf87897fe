"""Functions between complex tensors and their parts."""

from __future__ import annotations

from burnpy.backend.dtypes import complex_dtype, part_dtype
from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import stack
from burnpy.tensor.linalg import alike
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B


@explained
def complex(real: Tensor[B], imag: Tensor[B] | None = None) -> ComplexTensor[B]:  # noqa: A001  # as in PyTorch
    """Return the complex tensor of a real and an imaginary part, which promote; float16 and bfloat16 become float32.

    Args:
        real: the real part.
        imag: the imaginary part, of the same shape; None for zeros.

    Raises:
        ShapeError: the shapes differ.
        KindError: a part is no float tensor.
        DTypeError: the backend has no complex arrays.

    >>> import burnpy
    >>> burnpy.complex(Tensor[NumPy].from_data([1.0]), Tensor[NumPy].from_data([2.0])).tolist()
    [(1+2j)]
    """
    parts = alike("complex", real, *([] if imag is None else [imag]))
    if parts[0].shape != parts[-1].shape:
        raise ShapeError(
            f"complex() got a real part of shape {parts[0].shape} and an imaginary part of shape {parts[-1].shape}; "
            "give both one shape, as x.expand() does"
        )
    wide = part_dtype(complex_dtype(parts[0].dtype))
    parts = [x.to_dtype(wide) for x in parts]
    if imag is None:
        parts.append(parts[0].zeros_like())
    first = parts[0]
    return first._complex(first._backend.complex(*[x._primitive for x in parts]))  # type: ignore[no-any-return]  # of that class


@explained
def polar(abs: Tensor[B], angle: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex numbers of given magnitudes and angles in radians, which broadcast.

    >>> import burnpy
    >>> burnpy.polar(Tensor[NumPy].from_data([2.0]), Tensor[NumPy].from_data([0.0])).tolist()
    [(2+0j)]
    """
    size, turn = alike("polar", abs, angle)
    return complex(size * turn.cos(), size * turn.sin())


@explained
def view_as_real(z: ComplexTensor[B]) -> Tensor[B]:
    """Return the parts of a complex tensor along a new last dimension of size 2.

    Raises:
        KindError: ``z`` is no complex tensor.
    """
    if not isinstance(z, ComplexTensor):
        raise KindError(f"view_as_real() takes a ComplexTensor, got {describe(z)}")
    return stack([z.real, z.imag], -1)


@explained
def view_as_complex(x: Tensor[B]) -> ComplexTensor[B]:
    """Return the complex tensor whose parts are along the last dimension of x, of size 2.

    Raises:
        ShapeError: the last dimension is not of size 2.

    >>> import burnpy
    >>> burnpy.view_as_complex(Tensor[NumPy].from_data([[1.0, 2.0]])).tolist()
    [(1+2j)]
    """
    (x,) = alike("view_as_complex", x)
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex() takes a last dimension of size 2, got shape {x.shape}")
    return complex(x[..., 0], x[..., 1])
