"""The parameters of factories of random numbers: numbers or tensors, which are checked and broadcast."""

from __future__ import annotations

import math
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import DEFAULT, float64, has_few_exponents, result_type, tiny
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, ShapeError
from burnpy.backend.primitives import Bool, DType, Float, Shape
from burnpy.tensor.creation import Factory, Size, factory_shape
from burnpy.tensor.generator import drawn_from
from burnpy.tensor.host_data import float_of
from burnpy.tensor.levels import common_device, levels_between, raised
from burnpy.tensor.operand_checks import broadcast_shape, refuse_unless
from burnpy.tensor.tensor_base import TensorBase, describe


class Bound(NamedTuple):
    """The numbers that a parameter of a distribution may be."""

    words: str  #: for messages: "a finite number above 0"
    low: float = -math.inf
    above: bool = False  #: whether ``low`` itself is excluded
    high: float = math.inf
    whole: bool = False  #: whether they are whole
    finite: bool = True  #: whether they are finite

    def has(self, number: float) -> bool:
        """Return whether a number is one of them."""
        return (
            (math.isfinite(number) if self.finite else number == number)
            and (self.low < number if self.above else self.low <= number)
            and number <= self.high
            and (not self.whole or number == math.floor(number))
        )

    def holds(self, device: Any, x: Float) -> Bool:
        """Return where elements of a primitive are among them."""
        d, tests = device.discrete, []
        low, high = self.ends(x.dtype)
        if self.high < math.inf:
            tests.append(device.le(x, high))
        elif self.finite:
            tests.append(device.lt(x, math.inf) if self.low > -math.inf else device.isfinite(x))
        if self.low > -math.inf:
            tests.append(device.gt(x, self.low) if self.above else device.ge(x, low))
        if self.whole:
            tests.append(device.eq(x, device.floor(x)))
        return reduce(d.bitwise_and, tests) if tests else device.eq(x, x)

    @cache  # noqa: B019  # of a few constants
    def ends(self, dtype: DType) -> tuple[float, float]:
        """Return the smallest and the largest finite number of a dtype among them; no subnormal number but in float16.

        A draw that rounds to an end of an open support is moved there, so that its density is finite.
        """
        with np.errstate(over="ignore"):
            low, high = dtype.type(self.low), dtype.type(self.high)
        if float(low) < self.low or np.isinf(low) or (self.above and float(low) == self.low):
            low = np.nextafter(low, dtype.type(math.inf))
        if float(high) > self.high or np.isinf(high):
            high = np.nextafter(high, dtype.type(-math.inf))
        if self.above and self.low == 0.0 and not has_few_exponents(dtype):
            low = dtype.type(tiny(dtype))
        return float(low), float(high)


FINITE = Bound("a finite number")
POSITIVE = Bound("a finite number above 0", 0.0, True)
NOT_NEGATIVE = Bound("a finite number, 0 or larger", 0.0)
PROBABILITY = Bound("a number from 0 to 1", 0.0, high=1.0)
RATE = Bound("a number from 0 to 9e18", 0.0, high=9e18)
"""The means of Poisson distributions whose numbers are int64."""
COUNT = Bound("a whole number from 0 to 2**53", 0.0, high=2.0**53, whole=True)
ANY = Bound("a number, which may be infinite", finite=False)
OPEN_UNIT = Bound("a number between 0 and 1", 0.0, above=True, high=math.nextafter(1.0, 0.0))
NEGATIVE = Bound("a finite number below 0", high=-float(np.finfo(np.float64).tiny))


class Draw:
    """One call of a factory that draws: its device, dtype, shape, generator and parameters.

    Args:
        cls: the class or alias that the factory was called on.
        factory: its name.
        shape: of the result, to which the parameters broadcast.
        dtype: of the result; None for that to which the parameters promote, or the default.
        generator: the source of random numbers; None for the default one.
        device: the ``device`` argument; the device of a parameter, if neither it nor the class names one.
        parameters: the numbers and tensors by name, each with the numbers that it may be.

    Raises:
        DeviceError: a parameter is on another device.
        KindError: a parameter is neither a number nor a tensor of floats or, if it is whole, of ints.
        ShapeError: a parameter does not broadcast to the shape.
        ArgumentError: a parameter has a number that it may not be.
    """

    def __init__(
        self,
        cls: Any,
        factory: str,
        shape: Size,
        dtype: Any,
        generator: Any,
        device: Any,
        **parameters: tuple[Any, Bound],
    ) -> None:
        values = {name: value for name, (value, _) in parameters.items()}
        tensors = {name: value for name, value in values.items() if isinstance(value, TensorBase)}
        if tensors:
            device = self._device(cls, factory, device, tensors)
        self.target = Factory(cls, device, factory, draws=True)
        self.device: Any = self.target.device
        self.factory = self.target.factory
        self.shape: Shape = factory_shape(shape, self.factory, next(iter(values.values())))
        lifted = {name: raised(x, self.device) for name, x in tensors.items()}
        self.dtype: DType = self._dtype(dtype, [x for x in tensors.values() if not x._device.holds_numbers])
        self.values: dict[str, Any] = {}  #: a Python number or a float primitive for each parameter
        for name, (value, bound) in parameters.items():
            x = lifted.get(name)
            self.values[name] = self._number(name, value, bound) if x is None else self._tensor(name, x, bound)
        self._generator = generator

    @staticmethod
    def _device(alias: Any, factory: str, device: Any, tensors: dict[str, TensorBase[Any]]) -> Any:
        """Return the device of the tensors, which may be a level above the one that is named."""
        for name, x in tensors.items():
            if x.kind in ("bool", "complex"):
                raise KindError(f"Tensor.{factory}() got {name}={describe(x)}; expected a number or a Tensor")
        floats = [x.device for x in tensors.values() if x.kind == "float"]
        ints = [x.device for x in tensors.values() if x.kind != "float"]
        top = common_device(factory, floats, ints)
        if device is None and not hasattr(alias, "__args__"):
            return top
        named = Factory(alias, device, factory).device
        if levels_between(top, named) is not None:
            return top
        if levels_between(named, top) is not None or not floats:
            return named
        raise DeviceError(
            f"Tensor.{factory}() got {' and '.join(tensors)} on {top} for numbers on {named}; move the parameters with "
            ".to_device(...), or leave the device out: Tensor." + f"{factory}(...)"
        )

    def _dtype(self, dtype: Any, tensors: list[TensorBase[Any]]) -> DType:
        if dtype is not None:
            return self.target.dtype(dtype)  # type: ignore[no-any-return]  # a dtype
        floats = [x._primitive for x in tensors if x.kind == "float"]
        return result_type(*floats) if floats else DEFAULT["float"]

    def _number(self, name: str, value: Any, bound: Bound) -> float:
        try:
            number = float_of(value, self.dtype, self.factory)
        except DTypeError:
            raise KindError(f"{self.factory}() got {name}={describe(value)}; expected a number or a Tensor") from None
        if not bound.has(number):
            raise ArgumentError(f"{self.factory}() got {name}={value!r:.80}; expected {bound.words}")
        return number

    def _tensor(self, name: str, x: TensorBase[Any], bound: Bound) -> Float:
        if broadcast_shape(x.shape, self.shape) != self.shape:
            raise ShapeError(
                f"{self.factory}() got {name} of shape {x.shape}, which does not broadcast to shape {self.shape}"
            )
        device, primitive = self.device, x._primitive
        if x.kind == "int":
            if not bound.whole:
                raise KindError(f"{self.factory}() got {name}={describe(x)}; expected floats: x.float()")
            primitive = device.to_float(primitive, float64)
        message = f"{self.factory}() got {name} of shape {x.shape} with an element that is not {bound.words}"
        refuse_unless(device, bound.holds(device, device.detach(primitive)), ArgumentError(message))
        return primitive

    def rng(self) -> Any:
        """Return the NumPy generator to draw from."""
        return drawn_from(self._generator, self.device, self.factory)

    def value(self, name: str, dtype: DType | None = None) -> Any:
        """Return a parameter as a number, or as a primitive of a dtype, the result's by default."""
        value = self.values[name]
        return value if isinstance(value, float) else self.device.cast(value, dtype or self.dtype)

    def primitive(self, name: str, dtype: DType | None = None) -> Float:
        """Return a parameter as a primitive, which is 0-d for a number."""
        value = self.value(name, dtype)
        return self.device.full((), value, dtype or self.dtype) if isinstance(value, float) else value

    def full(self, name: str, dtype: DType | None = None) -> Float:
        """Return a parameter as a primitive of the result's shape."""
        value = self.primitive(name, dtype)
        return value if value.shape == self.shape else self.device.expand(value, self.shape)

    def exact(self, name: str) -> Float:
        """Return a parameter as a primitive of the result's shape: a number in float64, a tensor in its own dtype."""
        value = self.values[name]
        value = self.device.full((), value, float64) if isinstance(value, float) else value
        return value if value.shape == self.shape else self.device.expand(value, self.shape)

    def scaled(self, x: Float, loc: str, scale: str) -> Any:
        """Return the tensor of x · scale + loc, for standard random numbers x and the names of two parameters."""
        device, location, factor = self.device, self.value(loc), self.value(scale)
        if not isinstance(factor, float) or factor != 1.0:
            x = device.mul(x, factor)
        if not isinstance(location, float) or location != 0.0:
            x = device.add(x, location)
        return self.wrap(x, FINITE)

    def wrap(self, primitive: Float, support: Bound | None = None) -> Any:
        """Return a tensor of the result's dtype, whose numbers are inside of a support whatever rounding does."""
        out = self.device.cast(primitive, self.dtype)
        return self.target.wrap(out if support is None else self.device.clamp(out, *support.ends(self.dtype)))
