"""The signatures of the factories, made from the factories' source by ``make generated``."""

from typing import Any, Self, overload

from numpy.typing import ArrayLike

from burnpy.autodiff.autodiff import Autodiff
from burnpy.tensor.creation import Size
from burnpy.tensor.generator import Generator
from burnpy.tensor.host_data import DTypeLike
from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B2, B, I

class TensorFactories(TensorBase[B]):
    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: float, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: float, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: Tensor[I]) -> Tensor[Autodiff[I]]: ...
    @overload
    @classmethod
    def from_inner(cls, x: Tensor[Any], *, device: B2 | type[B2]) -> Tensor[B2]: ...
    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def arange(
        cls, start: float, end: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None
    ) -> Self: ...
    @overload
    @classmethod
    def arange(
        cls,
        start: float,
        end: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def uniform(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def uniform(
        cls,
        shape: Size,
        low: float | Tensor[B2] = 0.0,
        high: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def normal(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def normal(
        cls,
        shape: Size,
        mean: float | Tensor[B2] = 0.0,
        std: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def truncated_normal(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        mean: float = 0.0,
        std: float = 1.0,
        low: float = -2.0,
        high: float = 2.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def truncated_normal(
        cls,
        shape: Size,
        mean: float | Tensor[B2] = 0.0,
        std: float | Tensor[B2] = 1.0,
        low: float | Tensor[B2] = -2.0,
        high: float | Tensor[B2] = 2.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def exponential(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls, shape: Size, rate: float = 1.0, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self: ...
    @overload
    @classmethod
    def exponential(
        cls,
        shape: Size,
        rate: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def gumbel(  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        loc: float = 0.0,
        scale: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def gumbel(
        cls,
        shape: Size,
        loc: float | Tensor[B2] = 0.0,
        scale: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def sobol(cls, shape: Size, *, start: int = 0, seed: int | None = None, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def sobol(
        cls,
        shape: Size,
        *,
        start: int = 0,
        seed: int | None = None,
        dtype: DTypeLike | None = None,
        device: B2 | type[B2],
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def gamma(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        concentration: float,
        rate: float = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def gamma(
        cls,
        shape: Size,
        concentration: float | Tensor[B2],
        rate: float | Tensor[B2] = 1.0,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def beta(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        a: float,
        b: float,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def beta(
        cls,
        shape: Size,
        a: float | Tensor[B2],
        b: float | Tensor[B2],
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def dirichlet(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        concentration: float,
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def dirichlet(
        cls,
        shape: Size,
        concentration: float | Tensor[B2],
        *,
        log: bool = False,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def student_t(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        df: float,
        loc: float = 0.0,
        scale: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def student_t(
        cls,
        shape: Size,
        df: float | Tensor[B2],
        loc: float | Tensor[B2] = 0.0,
        scale: float | Tensor[B2] = 1.0,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def poisson(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls, shape: Size, rate: float, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self: ...
    @overload
    @classmethod
    def poisson(
        cls,
        shape: Size,
        rate: float | Tensor[B2],
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def binomial(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # it applies to numbers alone
        cls,
        shape: Size,
        count: float,
        prob: float,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
    ) -> Self: ...
    @overload
    @classmethod
    def binomial(
        cls,
        shape: Size,
        count: float | Tensor[B2] | IntTensor[B2],
        prob: float | Tensor[B2],
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2] = ...,
    ) -> Tensor[B2]: ...
    @overload
    @classmethod
    def linspace(cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def linspace(
        cls, start: float, end: float, steps: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> Tensor[B2]: ...

class ComplexTensorFactories(TensorBase[B]):
    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: complex, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: complex, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: ComplexTensor[I]) -> ComplexTensor[Autodiff[I]]: ...
    @overload
    @classmethod
    def from_inner(cls, x: ComplexTensor[Any], *, device: B2 | type[B2]) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> ComplexTensor[B2]: ...
    @overload
    @classmethod
    def linspace(cls, start: complex, end: complex, steps: int, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def linspace(
        cls, start: complex, end: complex, steps: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> ComplexTensor[B2]: ...

class IntTensorFactories(TensorBase[B]):
    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: int, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: int, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[I]) -> IntTensor[Autodiff[I]]: ...
    @overload
    @classmethod
    def from_inner(cls, x: IntTensor[Any], *, device: B2 | type[B2]) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def eye(cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def arange(cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def arange(
        cls, start: int, end: int | None = None, step: int = 1, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def randint(
        cls, low: int, high: int, shape: Size, *, dtype: DTypeLike | None = None, generator: Generator | None = None
    ) -> Self: ...
    @overload
    @classmethod
    def randint(
        cls,
        low: int,
        high: int,
        shape: Size,
        *,
        dtype: DTypeLike | None = None,
        generator: Generator | None = None,
        device: B2 | type[B2],
    ) -> IntTensor[B2]: ...
    @overload
    @classmethod
    def permutation(cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None) -> Self: ...
    @overload
    @classmethod
    def permutation(
        cls, n: int, *, dtype: DTypeLike | None = None, generator: Generator | None = None, device: B2 | type[B2]
    ) -> IntTensor[B2]: ...

class BoolTensorFactories(TensorBase[B]):
    @overload
    @classmethod
    def from_data(cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True) -> Self: ...
    @overload
    @classmethod
    def from_data(
        cls, data: ArrayLike, *, dtype: DTypeLike | None = None, copy: bool = True, device: B2 | type[B2]
    ) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def zeros(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def ones(cls, shape: Size, *, dtype: DTypeLike | None = None, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def full(cls, shape: Size, value: bool, *, dtype: DTypeLike | None = None) -> Self: ...
    @overload
    @classmethod
    def full(
        cls, shape: Size, value: bool, *, dtype: DTypeLike | None = None, device: B2 | type[B2]
    ) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any) -> Self: ...
    @overload
    @classmethod
    def from_dlpack(cls, source: Any, *, device: B2 | type[B2]) -> BoolTensor[B2]: ...
    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[I]) -> BoolTensor[Autodiff[I]]: ...
    @overload
    @classmethod
    def from_inner(cls, x: BoolTensor[Any], *, device: B2 | type[B2]) -> BoolTensor[B2]: ...
