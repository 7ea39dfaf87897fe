"""Layers whose weight is a function of other parameters: `WeightNorm` and `SpectralNorm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import KindError, a
from burnpy.nn.argument_checks import above_zero, positive
from burnpy.nn.buffer_updates import record_updates
from burnpy.nn.init import Normal
from burnpy.nn.layers.normalization import normalize
from burnpy.nn.layers.transposed_convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Buffer, Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

_FIRST_ITERATIONS = 15
"""The power iterations when a layer is made, as in PyTorch."""


class WeightNorm(Module[B]):
    """A layer whose weight is ``magnitude · v / ‖v‖``, with a magnitude for each output, and v in place of the weight.

    At first the weight is the layer's. As in PyTorch, transposed convolutions have a magnitude for each input.

    Source: Salimans and Kingma, Weight normalization, 2016.

    Args:
        layer: a layer with a parameter ``weight`` that maps a tensor, such as a `Linear` or a `Conv2d`.

    Raises:
        KindError: the layer has no such parameter.

    >>> from burnpy.nn import Linear
    >>> layer = WeightNorm(Linear(3, 2, device=NumPy))
    >>> layer
    WeightNorm()  10 parameters
      layer  Linear(3, 2)  8 parameters
        weight  (3, 2)
        bias  (2,)
      magnitude  (1, 2)
    >>> layer(Tensor[NumPy].ones((4, 3))).shape
    (4, 2)
    """

    def __init__(self, layer: Module[B]) -> None:
        self.layer = layer
        self.magnitude: Param[B] = Param(self._length(_weight_of("WeightNorm", layer).detach()))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer."""
        return _with_weight(self.layer, self.weight)(x)  # type: ignore[no-any-return]  # a layer of tensors

    @property
    def weight(self) -> Tensor[B]:
        """The weight that the layer computes with."""
        v = _weight_of("WeightNorm", self.layer)
        return v * (self.magnitude.value / self._length(v))

    def _length(self, v: Tensor[B]) -> Tensor[B]:
        """Return the norm of each slice of the first dimension of PyTorch's weight."""
        own = v.ndim - 1 if _is_transposed(self.layer) else 0
        return v.norm(dim=tuple(k for k in range(v.ndim) if k != own), keepdim=True)

    def merged(self) -> Module[B]:
        """Return the layer with the weight that it computes with as its parameter."""
        return self.layer.map(lambda v: self.weight.detach(), "weight")

    def torch_names(self) -> dict[str, Any]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        end = ".T" * _is_transposed(self.layer)
        start = "parametrizations.weight.original"
        return {**_names_within(self.layer), "layer.weight": f"{start}1{end}", "magnitude": f"{start}0{end}"}

    def valid(self: WeightNorm[Autodiff[I]]) -> WeightNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class SpectralNorm(Module[B]):
    """A layer whose weight is divided by its largest singular value, as a matrix with a row for each output.

    The singular value is ``u · W v``. In training each call improves the vectors u and v by power iteration, and the
    optimizer's step keeps them, as it does running statistics: several calls before a step improve the same ones.

    Source: Miyato et al., Spectral normalization for generative adversarial networks, 2018.

    Args:
        layer: a layer with a parameter ``weight`` that maps a tensor, such as a `Linear` or a `Conv2d`.
        n_power_iterations: the number of power iterations of a call in training.
        eps: the least length by which a vector is divided.
        generator: the source of random initial vectors.

    Raises:
        KindError: the layer has no such parameter.
        ArgumentError: a setting is not above 0.

    >>> from burnpy.linalg import svdvals
    >>> from burnpy.nn import Linear
    >>> layer = SpectralNorm(Linear(3, 2, device=NumPy))
    >>> round(svdvals(layer.weight)[0].item(), 3)
    1.0
    """

    def __init__(
        self,
        layer: Module[B],
        *,
        n_power_iterations: int = 1,
        eps: float = 1e-12,
        generator: Generator | None = None,
    ) -> None:
        positive("SpectralNorm", n_power_iterations=n_power_iterations)
        above_zero("SpectralNorm", eps=eps)
        self.layer, self.n_power_iterations, self.eps = layer, n_power_iterations, eps
        matrix = self._matrix(_weight_of("SpectralNorm", layer).detach())
        drawn = [Normal()((size,), device=matrix.device, generator=generator) for size in matrix.shape]
        u, v = (normalize(x.to_dtype(matrix.dtype), dim=0, eps=eps) for x in drawn)
        u, v = self._iterated(matrix, v, _FIRST_ITERATIONS)
        self.u: Buffer[B] = Buffer(u)
        self.v: Buffer[B] = Buffer(v)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer."""
        weight, u, v = _weight_of("SpectralNorm", self.layer), self.u.value, self.v.value
        iterates = self.trains_on(x)
        if iterates:
            u, v = self._iterated(self._matrix(weight.detach()), v, self.n_power_iterations)
        out = _with_weight(self.layer, self._divided(weight, u, v))(x)
        return record_updates(out, (self.u, u), (self.v, v)) if iterates else out

    @property
    def weight(self) -> Tensor[B]:
        """The weight that the layer computes with outside of training."""
        return self._divided(_weight_of("SpectralNorm", self.layer), self.u.value, self.v.value)

    def _divided(self, weight: Tensor[B], u: Tensor[B], v: Tensor[B]) -> Tensor[B]:
        return weight / (u * (self._matrix(weight) @ v)).sum()

    def _iterated(self, matrix: Tensor[B], v: Tensor[B], times: int) -> tuple[Tensor[B], Tensor[B]]:
        """Return both vectors after power iterations."""
        u = v
        for _ in range(times):
            u = normalize(matrix @ v, dim=0, eps=self.eps)
            v = normalize(matrix.transpose(0, 1) @ u, dim=0, eps=self.eps)
        return u, v

    def _matrix(self, weight: Tensor[B]) -> Tensor[B]:
        """Return PyTorch's weight as a matrix with a row for each output."""
        if _is_transposed(self.layer):
            return weight.transpose(0, 1)
        if isinstance(self.layer, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)):
            weight = weight.transpose(0, 1)
        return weight.reshape((weight.shape[0], weight.numel() // weight.shape[0]))

    def merged(self) -> Module[B]:
        """Return the layer with the weight that it computes with outside of training as its parameter."""
        return self.layer.map(lambda weight: self.weight.detach(), "weight")

    def torch_names(self) -> dict[str, Any]:
        """Map paths to PyTorch's names where they differ: see `burnpy.record.torch_weights`."""
        start, end = "parametrizations.weight.", ".T" * _is_transposed(self.layer)
        own = {"layer.weight": f"{start}original{end}", "u": f"{start}0._u", "v": f"{start}0._v"}
        return {**_names_within(self.layer), **own}

    def valid(self: SpectralNorm[Autodiff[I]]) -> SpectralNorm[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


def _weight_of(name: str, layer: Module[B]) -> Tensor[B]:
    """Return the weight of a layer."""
    given: object = layer
    weight: object = vars(given).get("weight") if isinstance(given, Module) else None
    if not isinstance(weight, Param) or len(weight.shape) < 2:
        raise KindError(
            f"{name}() takes a layer with a parameter weight of 2 or more dims, got {a(type(given).__name__)}"
        )
    return weight.value


def _with_weight(layer: Module[B], weight: Tensor[B]) -> Any:
    """Return a layer that computes with another weight, which may have been computed from others."""
    return layer._rebuilt(lambda path, variable: variable._unchecked(weight) if path == "weight" else variable)


def _names_within(layer: Module[B]) -> dict[str, Any]:
    """Return PyTorch's names of the variables of a layer, from a layer around it, which PyTorch does not have."""
    theirs = _torch_names(layer)
    return {f"layer.{path}": theirs.get(path, path) for path in layer._variables()}


def _is_transposed(layer: Module[B]) -> bool:
    """Return whether PyTorch has the transpose of the weight, so that outputs are the last dimension here."""
    return str(_torch_names(layer).get("weight")).endswith(".T")


def _torch_names(layer: Any) -> dict[str, Any]:
    return layer.torch_names() if hasattr(type(layer), "torch_names") else {}
