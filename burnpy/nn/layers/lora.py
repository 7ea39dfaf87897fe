"""Low-rank adapters: `Lora` trains a product of two small matrices beside a frozen linear layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.argument_checks import above_zero, positive, probability
from burnpy.nn.init import around_zero
from burnpy.nn.layers.dropout import dropout as dropped
from burnpy.nn.layers.linear import Linear, linear_of
from burnpy.nn.layers.quantization import QuantizedLinear
from burnpy.nn.module import Module, rebound
from burnpy.nn.module_tree import Rebuild
from burnpy.nn.param import Param
from burnpy.nn.transform import Where, divided, own_paths
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I, M

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator

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
        if not isinstance(module, (Linear, QuantizedLinear)) or chosen.isdisjoint(own_paths(path, module)):
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
