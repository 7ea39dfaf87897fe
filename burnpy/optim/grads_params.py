"""`GradientsParams`: gradients by parameter. They outlive the leaves that they were computed for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, final, overload

from burnpy.autodiff.gradients import Gradients
from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.errors import (
    ArgumentError,
    DeviceError,
    ImmutableError,
    KindError,
    MissingGradientError,
    a,
)
from burnpy.nn.select import meets, suggestion
from burnpy.nn.variable import Param
from burnpy.optim.matching import absent, added, gradient_device, matched, taken_from
from burnpy.optim.norms import norm_of
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.rematerialize.balanced import Balanced
    from burnpy.nn.module import Module

B = TypeVar("B", bound=Backend)
B2 = TypeVar("B2", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend
D = TypeVar("D")


@final
class GradientsParams(Subscriptable, Mapping[str, Tensor[B]], Generic[B]):
    """The gradients of a model's parameters, by the parameters' ids: an immutable mapping to tensors on backend ``B``.

    `burnpy.Gradients` are known by the leaves of one process; these are known by ids that stay the same in forks of the
    model, in other processes and after updates. They can be pickled, moved, added, scaled and clipped; each such call
    returns new ones. They are asked for by `burnpy.nn.Param`, by id or by path: ``grads["encoder.0.weight"]``.

    What the pass would have buffers become travels along: see `buffer_updates`.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> model = Linear(2, 1, device=Autodiff[NumPy])
    >>> loss = model(Tensor[Autodiff[NumPy]].ones((3, 2))).sum()
    >>> grads = GradientsParams.from_grads(loss.backward(), model)
    >>> grads["bias"].tolist(), grads[model.weight].shape, len(grads), grads.missing
    ([3.0], (2, 1), 2, ())
    """

    __slots__ = ("_device", "_paths", "_updates", "_values")

    _device: Any
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
    ) -> None:
        """As they are, unchecked; `from_grads` is the way to make them.

        Args:
            device: where the gradients are.
            values: the gradients by id.
            paths: where every parameter is that learns, by id, one without a gradient too.
            updates: those of buffers, by id.
        """
        for name, value in (
            ("_device", device_of(device)),
            ("_paths", dict(paths)),
            ("_updates", dict(updates or {})),
            ("_values", dict(values)),
        ):
            object.__setattr__(self, name, value)

    @staticmethod
    def from_grads(
        grads: Gradients[I], model: Module[Autodiff[I]] | Module[Autodiff[Balanced[I]]]
    ) -> GradientsParams[I]:
        """Those of the gradients that are of parameters of a model, frozen ones aside.

        Args:
            grads: what ``backward()`` returned. Gradients of other leaves, as of a second model, are left out.
            model: the very model that computed the loss; one that came of it by ``step()`` has new leaves.

        Raises:
            ArgumentError: the model and the gradients have nothing in common.
            DeviceError: the gradients are not on the device beneath the model's.
            KindError: ``grads`` are no `Gradients`.
        """
        values, paths, updates = matched(grads, model)
        return GradientsParams(grads.device, values, paths=paths, updates=updates)

    @overload
    @staticmethod
    def from_module(gradients: Module[Autodiff[Balanced[I]]]) -> GradientsParams[I]: ...
    @overload
    @staticmethod
    def from_module(gradients: Module[Autodiff[I]]) -> GradientsParams[I]: ...
    @overload
    @staticmethod
    def from_module(gradients: Module[B2]) -> GradientsParams[B2]: ...
    @staticmethod
    def from_module(gradients: Module[Any]) -> GradientsParams[Any]:
        """Those in a module of gradients, as `burnpy.func.grad` gives for a model, without those of frozen parameters.

        Args:
            gradients: a module with the ids of the model, on its device or on the one beneath.

        Returns:
            Gradients on a plain device: what ``gradients`` has on a device that differentiates is taken one level down,
            where `Optimizer.step` wants it.

        Raises:
            KindError: it is no module.
            ArgumentError: no parameter in it learns.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
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
        """The device that the gradients are on."""
        return self._device  # type: ignore[no-any-return]  # what __init__ was given

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of the parameters that learn and have no gradient here: the loss did not depend on them."""
        return tuple(path for ident, path in self._paths.items() if ident not in self._values)

    @property
    def buffer_updates(self) -> Mapping[str, Tensor[B]]:
        """What buffers would become, by their ids: see `burnpy.Gradients.buffer_updates`.

        They are none of the gradients: not counted, mapped, scaled or part of the norm. Adding gradients adds them.
        """
        return MappingProxyType(self._updates)

    def named(self) -> dict[str, Tensor[B]]:
        """The gradients by the paths of their parameters; by id where they are of two models with the same paths."""
        paths = {ident: self._paths.get(ident, ident) for ident in self._values}
        if len(set(paths.values())) < len(paths):
            paths = dict(zip(paths, paths, strict=True))
        return {paths[ident]: value for ident, value in self._values.items()}

    def __getitem__(self, key: Param[Any] | str) -> Tensor[B]:
        """The gradient of a parameter.

        Args:
            key: the parameter, its id or its path.

        Raises:
            MissingGradientError: (a KeyError) there is none.
            KindError: the key is something else.
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
        """The gradient of a parameter, or ``default``."""
        return self._values.get(self._id(key), default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (Param, str)) and self._id(key) in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def without(self, keys: Param[Any] | str | Iterable[Param[Any] | str]) -> GradientsParams[B]:
        """New ones without those of some parameters.

        Args:
            keys: one or several of: a `burnpy.nn.Param`, an id, a path, of all that is below it too, or a pattern
                such as ``"*.bias"``.

        Raises:
            ArgumentError: a path or pattern meets nothing.
        """
        dropped: set[str] = set()
        for key in (keys,) if isinstance(keys, (Param, str)) else keys:
            if not isinstance(key, str) or key in self._values:
                dropped.add(self._id(key))
                continue
            met = [ident for ident, path in self._paths.items() if meets(path, key)]
            if not met:
                raise ArgumentError(
                    f"without() was asked for {key!r}, which meets no parameter of these gradients"
                    + suggestion(key, [*self._paths.values()])
                )
            dropped.update(met)
        return self._of({ident: value for ident, value in self._values.items() if ident not in dropped})

    def map(self, f: Callable[[Tensor[B]], Tensor[B]]) -> GradientsParams[B]:
        """New ones, each the result of ``f``, which keeps shape, dtype and device.

        Raises:
            ArgumentError: ``f`` returned something else.
        """
        mapped: dict[str, Tensor[B]] = {}
        for ident, value in self._values.items():
            found: object = f(value)
            if (
                not isinstance(found, Tensor)
                or found.device is not self._device
                or (found.shape, found.dtype) != (value.shape, value.dtype)
            ):
                raise ArgumentError(
                    f"the function given to map() was given the gradient of {self._paths.get(ident, ident)}, of shape "
                    f"{value.shape} and dtype {value.dtype} on {self._device}, and must return one such, but returned "
                    f"{found!r:.200}"
                )
            mapped[ident] = found
        return self._of(mapped)

    def norm(self, p: float = 2.0) -> Tensor[B]:
        """The ``p``-norm of all gradients together, 0-d, at least float32; 0 of none.

        Raises:
            ArgumentError: ``p`` is not positive; ``math.inf`` is, and gives the largest magnitude.
        """
        return norm_of(self._values.values(), self._device, p)

    def to_device(self, device: B2 | type[B2]) -> GradientsParams[B2]:
        """The same gradients on another device."""
        target: Any = device_of(device)
        moved: Any = [
            {ident: value.to_device(target) for ident, value in held.items()} for held in (self._values, self._updates)
        ]
        return GradientsParams(target, moved[0], paths=self._paths, updates=moved[1])

    def __add__(self, other: GradientsParams[B]) -> GradientsParams[B]:
        """The sum by parameter; what only one of the two has stays. Updates of buffers add up too.

        Raises:
            KindError: something else is added.
            DeviceError: the other ones are on another device.
            ShapeError: of one parameter, the two are of different shapes or dtypes.
        """
        given: object = other
        if not isinstance(given, GradientsParams):
            raise KindError(
                f"GradientsParams are added to GradientsParams, not to {a(type(given).__name__)}; to change each, use "
                "grads.map(f), and of Gradients make such with GradientsParams.from_grads(grads, model)"
            )
        if other._device is not self._device:
            raise DeviceError(
                f"gradients on {self._device} and {other._device} do not add; move one with .to_device(device)"
            )
        paths = {**other._paths, **self._paths}
        summed = [
            added(mine, theirs, paths)
            for mine, theirs in ((self._values, other._values), (self._updates, other._updates))
        ]
        return GradientsParams(self._device, summed[0], paths=paths, updates=summed[1])

    def __mul__(self, factor: float | Tensor[B]) -> GradientsParams[B]:
        """Every gradient times a number."""
        return self.map(lambda grad: grad * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float | Tensor[B]) -> GradientsParams[B]:
        """Every gradient over a number."""
        return self.map(lambda grad: grad / divisor)

    def _of(self, values: Mapping[str, Tensor[B]]) -> GradientsParams[B]:
        return GradientsParams(self._device, values, paths=self._paths, updates=self._updates)

    def _id(self, key: Param[Any] | str) -> str:
        if isinstance(key, Param):
            return key.id
        given: object = key
        if not isinstance(given, str):
            raise KindError(
                f"gradients by parameter are asked for by Param, id or path, not by {a(type(given).__name__)}; "
                "of model.weight, give model.weight itself, not its value"
            )
        if key in self._paths:
            return key
        return next((ident for ident, path in self._paths.items() if path == key), key)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ImmutableError(f"GradientsParams are immutable: {name} cannot be set; grads.map(f) makes new ones")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise ImmutableError("GradientsParams are immutable: grads[key] cannot be set; grads.map(f) makes new ones")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._device, self._values, self._paths, self._updates)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        missing = f", {len(self.missing)} missing" if self.missing else ""
        return f"GradientsParams({', '.join(self.named())}{missing}, device={self._device.name})"


def _restored(device: Any, values: Any, paths: Any, updates: Any) -> GradientsParams[Any]:
    return GradientsParams(device, values, paths=paths, updates=updates)
