"""Layers whose weight is a function of other parameters: `WeightNorm`, `SpectralNorm`, low-rank adapters (`Lora`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.argument_checks import QuantizedDType, above_zero, positive, probability
from burnpy.nn.buffer_updates import record_updates
from burnpy.nn.init import Normal, around_zero
from burnpy.nn.layers.dropout import dropout as dropped
from burnpy.nn.layers.linear import Linear, linear_of
from burnpy.nn.layers.normalization import normalize
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.layers.transposed_convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from burnpy.nn.module import Module, rebound
from burnpy.nn.module_tree import Rebuild
from burnpy.nn.param import Buffer, Param
from burnpy.nn.transform import Where, divided, paths_within
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I, M

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator

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

    def _quantized(self, dtype: QuantizedDType, group_size: int | None) -> Any:
        return self.merged()._quantized(dtype, group_size)

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
        self, layer: Module[B], *, n_power_iterations: int = 1, eps: float = 1e-12, generator: Generator | None = None
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

    def _quantized(self, dtype: QuantizedDType, group_size: int | None) -> Any:
        return self.merged()._quantized(dtype, group_size)

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


Adaptable: TypeAlias = Linear[B] | QuantizedLinear[B]
"""The layers that take adapters."""


class Lora(Module[B]):
    """A frozen linear layer with a trained product of low rank: ``layer(x) + (x @ lora_a @ lora_b) · alpha / rank``.

    At first lora_b is 0, so that the output is the layer's. `add_lora` makes such layers in a model.

    Source: Hu et al., LoRA: Low-rank adaptation of large language models, 2021.

    Args:
        layer: the layer, `Linear` or `QuantizedLinear`, which is frozen.
        rank: the size between the two matrices.
        alpha: the factor of the product, divided by the rank; the rank by default.
        dropout: the share of the elements of x that are dropped before the product, in training mode.
        generator: the source of random initial values of lora_a, uniform in ±1/√in_features.

    Raises:
        KindError: ``layer`` is another layer.
        ArgumentError: a setting is out of range.

    >>> Lora(QuantizedLinear(Linear(64, 32, device=Autodiff[NumPy])), rank=4)
    Lora(rank=4, alpha=4.0)  416 parameters, 32 of them frozen
      layer  QuantizedLinear(64, 32, weight_dtype='int8')  32 parameters, 32 of them frozen
        weight  (32, 64) buffer frozen
        scale  (32, 1) buffer frozen
        bias  (32,) frozen
      lora_a  (64, 4)
      lora_b  (4, 32)
    """

    def __init__(
        self,
        layer: Adaptable[B],
        rank: int = 8,
        *,
        alpha: float | None = None,
        dropout: float = 0.0,
        generator: Generator | None = None,
    ) -> None:
        given: object = layer
        if not isinstance(given, (Linear, QuantizedLinear)):
            raise KindError(f"Lora() adapts Linear and QuantizedLinear layers, got {a(type(given).__name__)}")
        positive("Lora", rank=rank)
        self.alpha = float(rank) if alpha is None else alpha
        above_zero("Lora", alpha=self.alpha)
        self.dropout = probability("Lora", dropout)
        self.layer: Adaptable[B] = layer.no_grad()
        own = layer.scale if isinstance(layer, QuantizedLinear) else layer.weight
        device, inputs, outputs = own.device, layer.in_features, layer.out_features
        weight = around_zero(inputs)((inputs, rank), device=device, generator=generator)
        self.lora_a: Param[B] = Param(weight.to_dtype(own.dtype))
        self.lora_b: Param[B] = Param(Tensor.zeros((rank, outputs), dtype=own.dtype, device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map (…, in_features) to (…, out_features)."""
        y = dropped(x, self.dropout, training=self.trains_on(x)) if self.dropout else x
        return self.layer(x) + y @ self.lora_a.value * (self.alpha / self.rank) @ self.lora_b.value

    def merged(self) -> Linear[B]:
        """Return a linear layer, not frozen, whose weight is the layer's, as floats, plus the product."""
        linear = self.layer
        if isinstance(linear, QuantizedLinear):
            linear = linear_of(Param(linear.dequantized()), linear.bias)
        product = self.lora_a.value.detach() * (self.alpha / self.rank) @ self.lora_b.value.detach()
        return linear.require_grad().map(lambda weight: weight + product, "weight")

    @property
    def rank(self) -> int:
        """The size between the two matrices."""
        return self.lora_a.shape[1]

    @property
    def in_features(self) -> int:
        """The size of the last dimension of the input."""
        return self.layer.in_features

    @property
    def out_features(self) -> int:
        """The size of the last dimension of the output."""
        return self.layer.out_features

    def torch_names(self) -> dict[str, str]:
        """Map paths to PEFT's names where they differ: see `burnpy.record.torch_weights`."""
        return {"layer": "base_layer", "lora_a": "lora_A.weight.T", "lora_b": "lora_B.weight.T"}

    def valid(self: Lora[Autodiff[I]]) -> Lora[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


@explained
def add_lora(
    model: M,
    where: Where | None = None,
    *,
    rank: int = 8,
    alpha: float | None = None,
    dropout: float = 0.0,
    generator: Generator | None = None,
) -> M:
    """Return the model frozen, with a `Lora` in place of linear layers: only these train.

    Args:
        model: a model with `Linear` or `QuantizedLinear` layers.
        where: the selection of layers by their variables: None for all, a path, a pattern (``"*.query.*"``),
            several of these, or a predicate of path and variable.
        rank: see `Lora`.
        alpha: see `Lora`.
        dropout: see `Lora`.
        generator: the source of random initial values.

    Raises:
        ArgumentError: there is no such layer; the model has adapters already; a setting is out of range.

    >>> from burnpy.nn import Relu, Sequential
    >>> model = Sequential(Linear(64, 32, device=Autodiff[NumPy]), Relu(), Linear(32, 10, device=Autodiff[NumPy]))
    >>> adapted = add_lora(model, "0", rank=4)
    >>> [path for path, param in adapted.named_params().items() if not param.frozen]
    ['0.lora_a', '0.lora_b']
    """
    model, chosen = divided(model, where, "add_lora()")

    def adapted(path: str, module: Any) -> Any:
        if isinstance(module, Lora):
            raise ArgumentError(
                f"add_lora() got a model with adapters, such as {path or 'itself'}; merge_lora() it first"
            )
        is_chosen = not chosen.isdisjoint(paths_within(path, module))
        if isinstance(module, (WeightNorm, SpectralNorm)):
            module = module.merged()  # its weight is frozen, too
        if not isinstance(module, (Linear, QuantizedLinear)) or not is_chosen:
            return None
        if not path:
            raise ArgumentError(
                f"add_lora() adapts layers of a model, got {a(type(module).__name__)}; write Lora(layer)"
            )
        return Lora(module, rank, alpha=alpha, dropout=dropout, generator=generator)

    result: M = Rebuild(module=adapted)(model)
    if result is model:
        raise ArgumentError(f"add_lora() found no linear layer in {type(model).__name__} among those selected")
    layers = [module for module in result.named_modules().values() if isinstance(module, Lora)]
    trained = {id(param) for layer in layers for param in (layer.lora_a, layer.lora_b)}
    return result.no_grad(lambda path, variable: id(variable) not in trained)


@explained
def merge_lora(model: M) -> M:
    """Return the model with `Lora.merged` layers in place of adapters, and all parameters trainable.

    Quantized layers become layers of floats; write ``merge_lora(model).quantized()`` for ints again.

    Raises:
        ArgumentError: the model has no adapters.

    >>> from burnpy.nn import Sequential
    >>> merge_lora(add_lora(Sequential(Linear(2, 3, device=NumPy))))
    Sequential()  9 parameters
      0  Linear(2, 3)  9 parameters
        weight  (2, 3)
        bias  (3,)
    """

    def merged(path: str, module: Any) -> Any:
        return module.merged() if isinstance(module, Lora) and path else None

    result: M = Rebuild(module=merged)(model)
    if result is model:
        raise ArgumentError(f"merge_lora() found no Lora layer in {type(model).__name__}")
    return result.require_grad()
