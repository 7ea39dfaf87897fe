"""`GradientsParams`: gradients by parameter id, independent of the leaves for which they were computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, final, overload

from burnpy.backend.backend import Backend
from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.errors import (
    ArgumentError,
    DeviceError,
    ImmutableError,
    KindError,
    MissingGradientError,
    MissingNameError,
    a,
)
from burnpy.backend.operations.complex_numbers import on_lists
from burnpy.func.pytree import register_tree
from burnpy.nn.param import Param
from burnpy.nn.transform import meets, suggestion
from burnpy.optim.gradients.flat_buckets import BUCKET_BYTES, Layout
from burnpy.optim.gradients.matching import absent, added, device_in, gradient_device, matched, norm_of, taken_from
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients, primitive_of, scales
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.typevars import B2, B, I

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.nn.module import Module
    from burnpy.tensor.tensor import BoolTensor
    from burnpy.tensor.tensor_types import OnAutodiff

    I_co = TypeVar("I_co", bound=Backend, covariant=True)

    class ModelOnAutodiff(OnAutodiff[I_co], Protocol[I_co]):
        """A module whose gradients are on ``I``."""

        def named_params(self) -> Mapping[str, Any]: ...  # noqa: D102  # only modules have this method


D = TypeVar("D")


@final
class GradientsParams(Subscriptable, Mapping[str, Tensor[B]], Generic[B]):
    """The gradients of a model's parameters, by the parameters' ids: an immutable mapping to tensors on backend ``B``.

    `burnpy.Gradients` are keyed by leaves of one process; these are keyed by ids, which stay the same in forks of the
    model, in other processes and after updates. They can be pickled, moved, added, scaled and clipped; each such method
    returns a new object. Look them up by `burnpy.nn.Param`, by id or by path: ``grads["encoder.0.weight"]``.

    Updates of buffers are included: see `buffer_updates`. For `burnpy.func` they are a tree of tensors.

    >>> from burnpy.nn import Linear
    >>> model = Linear(2, 1, device=Autodiff[NumPy])
    >>> loss = model(Tensor[Autodiff[NumPy]].ones((3, 2))).sum()
    >>> grads = GradientsParams.from_grads(loss.backward(), model)
    >>> grads["bias"].tolist(), grads[model.weight].shape, len(grads), grads.missing
    ([3.0], (2, 1), 2, ())
    """

    __slots__ = ("_device", "_found_inf", "_paths", "_updates", "_values")

    _device: Any
    _found_inf: BoolTensor[B] | None
    _paths: dict[str, str]
    _updates: dict[str, Tensor[B]]
    _values: dict[str, Tensor[B]]

    def __init__(
        self,
        device: B | type[B],
        values: Mapping[str, Tensor[B]],
        *,
        paths: Mapping[str, str],
        updates: Mapping[str, Tensor[B]] | None = None,
        found_inf: BoolTensor[B] | None = None,
    ) -> None:
        """Store gradients without validation; use `from_grads` to create them from a backward pass.

        Args:
            device: the device of the gradients.
            values: the gradients by parameter id.
            paths: the paths of all trainable parameters by id, including those without a gradient.
            updates: the updates of buffers by buffer id.
            found_inf: see `found_inf`.
        """
        for name, value in (
            ("_device", device_of(device)),
            ("_found_inf", found_inf),
            ("_paths", dict(paths)),
            ("_updates", dict(updates or {})),
            ("_values", dict(values)),
        ):
            object.__setattr__(self, name, value)

    @staticmethod
    def from_grads(grads: Gradients[I], model: ModelOnAutodiff[I]) -> GradientsParams[I]:
        """Select the gradients of a model's parameters, except frozen ones.

        Args:
            grads: the result of ``backward()``. Gradients of other leaves, such as a second model's, are left out.
            model: the model object that computed the loss; a model returned by ``step()`` has new leaves.

        Raises:
            ArgumentError: there is no gradient of the model's parameters.
            DeviceError: the gradients are not on the device beneath the model's.
            KindError: ``grads`` are not `Gradients`.
        """
        module: Any = model
        values, paths, updates = matched(grads, module)
        return GradientsParams(grads.device, values, paths=paths, updates=updates)

    @overload
    @staticmethod
    def from_module(gradients: ModelOnAutodiff[I]) -> GradientsParams[I]: ...
    @overload
    @staticmethod
    def from_module(gradients: Module[B2]) -> GradientsParams[B2]: ...
    @staticmethod
    def from_module(gradients: Any) -> GradientsParams[Any]:
        """Extract the gradients from a module of gradients, as returned by `burnpy.func.grad`, except frozen ones.

        Those on a device that differentiates are moved to the level beneath, as `Optimizer.step` requires.

        Args:
            gradients: a module with the ids of the model, on its device or on the one beneath.

        Raises:
            KindError: ``gradients`` is not a module.
            ArgumentError: all its parameters are frozen.

        >>> from burnpy.func import value_and_grad
        >>> from burnpy.nn import Linear
        >>> from burnpy.optim import Sgd
        >>> model, x = Linear(2, 1, device=NumPy), Tensor[NumPy].ones((3, 2))
        >>> loss, gradients = value_and_grad(lambda model: model(x).square().mean())(model)
        >>> model = Sgd().step(0.1, model, GradientsParams.from_module(gradients))
        >>> model(x).square().mean().item() < loss.item()
        True
        """
        values, paths = taken_from(gradients)
        return GradientsParams(gradient_device(gradients), values, paths=paths)

    @property
    def device(self) -> B:
        """The device of the gradients."""
        return self._device  # type: ignore[no-any-return]  # the argument of __init__

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of trainable parameters without a gradient, because the loss did not depend on them."""
        return tuple(path for ident, path in self._paths.items() if ident not in self._values)

    @property
    def buffer_updates(self) -> Mapping[str, Tensor[B]]:
        """The updates of buffers by buffer id: see `burnpy.Gradients.buffer_updates`.

        They are not gradients: not counted, mapped, scaled or part of the norm. Adding gradients adds them.
        """
        return MappingProxyType(self._updates)

    @property
    def found_inf(self) -> BoolTensor[B] | None:
        """True, 0-d, if `burnpy.optim.GradScaler.unscale` found an infinite or NaN gradient; None if unchecked.

        Where it is true, `Optimizer.step` leaves parameters and states as they are. It is carried on by the methods,
        and by clipping; sums have it where one of the summands has.
        """
        return self._found_inf

    def named(self) -> dict[str, Tensor[B]]:
        """Return the gradients by parameter path; by id if several models have the same paths."""
        paths = {ident: self._paths.get(ident, ident) for ident in self._values}
        if len(set(paths.values())) < len(paths):
            paths = dict(zip(paths, paths, strict=True))
        return {paths[ident]: value for ident, value in self._values.items()}

    def __getitem__(self, key: Param[Any] | str) -> Tensor[B]:
        """Return the gradient of a parameter.

        Args:
            key: the parameter, its id or its path.

        Raises:
            MissingGradientError: (a KeyError) there is no such gradient.
            KindError: the key is neither a parameter nor a string.
        """
        ident = self._id(key)
        try:
            return self._values[ident]
        except KeyError:
            raise MissingGradientError(f"these gradients hold {absent(key, self._paths)}") from None

    @overload
    def get(self, key: Param[Any] | str) -> Tensor[B] | None: ...
    @overload
    def get(self, key: Param[Any] | str, default: Tensor[B]) -> Tensor[B]: ...
    @overload
    def get(self, key: Param[Any] | str, default: D) -> Tensor[B] | D: ...
    def get(self, key: Param[Any] | str, default: Any = None) -> Any:
        """Return the gradient of a parameter, or ``default``."""
        return self._values.get(self._id(key), default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (Param, str)) and self._id(key) in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @explained
    def without(self, keys: Param[Any] | str | Iterable[Param[Any] | str]) -> GradientsParams[B]:
        """Return the gradients without those of some parameters.

        Args:
            keys: one or several of: a `burnpy.nn.Param`, an id, a path of a parameter or of a module with all its
                parameters, or a pattern such as ``"*.bias"``.

        Raises:
            ArgumentError: a path or pattern matches nothing.
        """
        dropped: set[str] = set()
        for key in (keys,) if isinstance(keys, (Param, str)) else keys:
            if not isinstance(key, str) or key in self._values:
                matching = [self._id(key)]
            elif not (matching := [ident for ident, path in self._paths.items() if meets(path, key)]):
                hint = suggestion(key, [*self._paths.values()])
                raise ArgumentError(f"without() got {key!r}, which meets no parameter of these gradients{hint}")
            dropped.update(matching)
        return self._of({ident: value for ident, value in self._values.items() if ident not in dropped})

    @explained
    def map(self, f: Callable[[Tensor[B]], Tensor[B]]) -> GradientsParams[B]:
        """Apply ``f`` to each gradient; it must preserve shape, dtype and device.

        Raises:
            ArgumentError: ``f`` returned anything else.
        """
        mapped: dict[str, Tensor[B]] = {}
        for ident, value in self._values.items():
            result: object = f(value)
            form = value.shape, value.dtype, self._device
            if not isinstance(result, type(value)) or (result.shape, result.dtype, result.device) != form:
                raise ArgumentError(
                    f"map() calls its function with the gradient of {self._paths.get(ident, ident)}, of shape "
                    f"{value.shape} and dtype {value.dtype} on {self._device}, and expects the same back, but got "
                    f"{result!r:.200}"
                )
            mapped[ident] = result
        return self._of(mapped)

    def norm(self, p: float = 2.0) -> Tensor[B]:
        """Return the ``p``-norm of all gradients together, 0-d, at least float32; 0 if there are none.

        For ``p = math.inf`` it is the largest magnitude. Powers neither overflow nor underflow.

        Raises:
            ArgumentError: ``p`` is not positive.
        """
        return norm_of(self, p)

    def to_device(self, device: B2 | type[B2]) -> GradientsParams[B2]:
        """Return the gradients on another device."""
        target: Any = device_of(device)
        values: Any = {ident: value.to_device(target) for ident, value in self._values.items()}
        updates: Any = {ident: value.to_device(target) for ident, value in self._updates.items()}
        found_inf = None if self._found_inf is None else self._found_inf.to_device(target)
        return GradientsParams(target, values, paths=self._paths, updates=updates, found_inf=found_inf)

    def flatten(self, *, bucket_bytes: int = BUCKET_BYTES) -> tuple[tuple[Tensor[B], ...], Layout[B]]:
        """Copy all gradients into flat buckets of one dtype each, as communication libraries want them.

        Args:
            bucket_bytes: the size at which a bucket is closed.

        Returns:
            The buckets, 1-d, and the layout; ``layout.unflatten(buckets)`` returns the gradients. Updates of buffers
            and `found_inf` are in the buckets too, so that a sum of buckets is the sum of the gradients. 16-bit floats
            are stored as float32.

        Raises:
            ArgumentError: ``bucket_bytes`` is not a positive int.

        >>> from burnpy.nn import Linear
        >>> model = Linear(2, 1, device=Autodiff[NumPy])
        >>> loss = model(Tensor[Autodiff[NumPy]].from_data([[5.0, 6.0]])).sum()
        >>> buckets, layout = GradientsParams.from_grads(loss.backward(), model).flatten()
        >>> [bucket.tolist() for bucket in buckets]
        [[1.0, 5.0, 6.0]]
        >>> layout.unflatten([bucket * 2.0 for bucket in buckets])["weight"].tolist()
        [[10.0], [12.0]]
        """
        layout: Layout[B] = Layout.of(self, bucket_bytes)
        return layout.flatten(self), layout

    def __add__(self, other: GradientsParams[B]) -> GradientsParams[B]:
        """Add gradients by parameter; those in only one operand are kept. Updates of buffers are added too.

        Raises:
            KindError, DeviceError: ``other`` is not `GradientsParams`, or on another device.
            ShapeError: two gradients of one parameter have different shapes or dtypes.
        """
        return self.plus(other)

    def __radd__(self, other: int) -> GradientsParams[B]:  # `sum` begins with 0
        return self.plus(other) if other else self  # type: ignore[arg-type]  # which refuses it

    def plus(self, other: GradientsParams[B], weight: float = 1.0) -> GradientsParams[B]:
        """Add gradients as ``+``, those of ``other`` multiplied by a weight, which updates of buffers are not."""
        operand: object = other
        if not isinstance(operand, GradientsParams):
            raise KindError(
                f"GradientsParams are added to GradientsParams, not to {a(type(operand).__name__)}; to change each, "
                "use grads.map(f), and of Gradients make such with GradientsParams.from_grads(grads, model)"
            )
        if other._device is not self._device:
            both = f"{self._device} and {other._device}"
            raise DeviceError(f"gradients on {both} do not add; move one with .to_device(device)")
        paths = {**other._paths, **self._paths}
        values = added(self._values, other._values, paths, self._device, weight)
        updates = added(self._updates, other._updates, paths, self._device)
        checked = [grads._found_inf for grads in (self, other) if grads._found_inf is not None]
        found_inf = checked[0] | checked[1] if len(checked) == 2 else checked[0] if checked else None
        return GradientsParams(self._device, values, paths=paths, updates=updates, found_inf=found_inf)

    def __sub__(self, other: GradientsParams[B]) -> GradientsParams[B]:
        """Subtract gradients by parameter, as the sum with ``-other``; updates of buffers are added."""
        return self.plus(other, -1.0)

    def __neg__(self) -> GradientsParams[B]:
        """Return the gradients with the opposite sign."""
        return self.mapped("foreach_mul", -1.0)

    def __mul__(self, factor: float | Tensor[B]) -> GradientsParams[B]:
        """Multiply every gradient by a number."""
        return self.mapped("foreach_mul", factor) if scales(factor, self) else self.map(lambda grad: grad * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float | Tensor[B]) -> GradientsParams[B]:
        """Divide every gradient by a number."""
        return self.mapped("foreach_div", divisor) if scales(divisor, self) else self.map(lambda grad: grad / divisor)

    def checked(self, found_inf: BoolTensor[B]) -> GradientsParams[B]:
        """Return the gradients with `found_inf`, a 0-d tensor on their device."""
        return self._of(self._values, found_inf)

    def primitives(self) -> list[Float]:
        """Return the primitives of all gradients, in order."""
        return [value._primitive for value in self._values.values()]

    def mapped(self, operation: str, *args: Any) -> GradientsParams[B]:
        """Return gradients with an operation on lists of the device applied to all, such as ``foreach_clamp``.

        Complex gradients are computed as pairs of floats.

        Args:
            operation: its name.
            args: its further arguments; tensors are on the device.
        """
        results = on_lists(self._device, operation, self.primitives(), *map(primitive_of, args))
        tensors = [tensor_of(self._device, x) for x in results]
        return self._of(dict(zip(self._values, tensors, strict=True)))

    def _of(self, values: Mapping[str, Tensor[B]], found_inf: BoolTensor[B] | None = None) -> GradientsParams[B]:
        found = self._found_inf if found_inf is None else found_inf
        return GradientsParams(self._device, values, paths=self._paths, updates=self._updates, found_inf=found)

    def _id(self, key: Param[Any] | str) -> str:
        """Return the parameter id of a key: a parameter, an id or a path."""
        if isinstance(key, Param):
            return key.id
        argument: object = key
        if not isinstance(argument, str):
            raise KindError(
                f"gradients by parameter are looked up by Param, id or path, got {a(type(argument).__name__)}; "
                "of model.weight, give model.weight itself, not its value"
            )
        if key in self._paths:
            return key
        return next((ident for ident, path in self._paths.items() if path == key), key)

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report it as an error

        def __getattr__(self, name: str) -> object:
            """Raise an error for an unknown attribute, such as the name of a parameter."""
            if name.startswith("_"):  # `copy` and NumPy look for such names
                raise AttributeError(f"'GradientsParams' object has no attribute {name!r}", name=name, obj=self)
            paths = [path for path in self._paths.values() if path == name or path.startswith(f"{name}.")]
            raise MissingNameError(
                f"GradientsParams have no {name}; look up a parameter by its path: grads[{(paths or ['path'])[0]!r}]"
            )

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"GradientsParams are immutable: {name} cannot be set or deleted; grads.map(f) makes new ones"
        )

    def __setitem__(self, key: object, value: object = None) -> NoReturn:
        self.__setattr__("grads[key]")

    __delattr__: Any = __setattr__
    __delitem__: Any = __setitem__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._device, self._values, self._paths, self._updates, self._found_inf)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        missing = f", {len(self.missing)} missing" if self.missing else ""
        return f"GradientsParams({', '.join(self.named())}{missing}, device={self._device.name})"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction]  # notebooks call it
        """Return a table of the parameters' paths, shapes, dtypes and norms, for notebooks."""
        from burnpy.tensor.display import html_of_gradients

        return html_of_gradients(self, {path: grad._primitive for path, grad in self.named().items()})


def _restored(device: Any, values: Any, paths: Any, updates: Any, found_inf: Any) -> GradientsParams[Any]:
    return GradientsParams(device, values, paths=paths, updates=updates, found_inf=found_inf)


def _flatten(grads: GradientsParams[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    values, updates, device = grads._values, grads._updates, grads._device
    rest = device.stands_for or device, tuple(values), tuple(updates), tuple(grads._paths.items())
    return [[*values.values()], [*updates.values()], grads._found_inf], rest


def _unflatten(children: Sequence[Any], rest: tuple[Any, ...]) -> GradientsParams[Any]:
    (tensors, sums, found_inf), (default, idents, buffers, paths) = children, rest
    device = device_in((*tensors, *sums), default)
    values, updates = dict(zip(idents, tensors, strict=True)), dict(zip(buffers, sums, strict=True))
    return _restored(device, values, dict(paths), updates, found_inf)


register_tree(GradientsParams, _flatten, _unflatten)
