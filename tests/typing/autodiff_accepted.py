"""Code type checkers must accept of `burnpy.autodiff`'s operations and hooks of one's own. Runs, too."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, assert_type

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.autodiff import (
    Balanced,
    Context,
    Function,
    Gradients,
    HookHandle,
    backward,
    custom_jvp,
    custom_vjp,
    grad,
    no_grad,
    once_differentiable,
    register_multi_grad_hook,
)
from burnpy.backend import Backend, NumPy

Train: TypeAlias = Autodiff[NumPy]
B = TypeVar("B", bound=Backend)

x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0]).require_grad()


class Exp(Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor[B]) -> Tensor[B]:
        ctx.note = "any attribute"
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Context, grad: Tensor[B]) -> Tensor[B]:
        (y,) = ctx.saved_tensors
        return grad * y

    @staticmethod
    def jvp(ctx: Context, tangent: Tensor[B]) -> Tensor[B]:
        return tangent * ctx.saved_tensors[0]


class Scaled(Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor[B], factor: float, i: IntTensor[B]) -> tuple[Tensor[B], IntTensor[B]]:
        ctx.factor = factor
        return x * factor, i

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor[B], none: None) -> tuple[Tensor[B], None, None]:
        return grad * float(ctx.factor), None, None


# apply has the type of forward, without ctx, on every device.
assert_type(Exp.apply(x), Tensor[Autodiff[NumPy]])
assert_type(Exp.apply(x.inner()), Tensor[NumPy])
i = IntTensor[Autodiff[NumPy]].from_data([1])
assert_type(Scaled.apply(x, 2.0, i), tuple[Tensor[Autodiff[NumPy]], IntTensor[Autodiff[NumPy]]])
assert_type(Scaled.apply(x, factor=2.0, i=i)[0], Tensor[Autodiff[NumPy]])


# Decorated functions have the type that they had.
@custom_vjp
def product(x: Tensor[B], y: Tensor[B], factor: float = 1.0) -> Tensor[B]:
    return x * y * factor


def product_forward(x: Tensor[B], y: Tensor[B], factor: float) -> tuple[Tensor[B], tuple[Tensor[B], Tensor[B]]]:
    return x * y * factor, (x * factor, y * factor)


def product_backward(residuals: tuple[Tensor[B], Tensor[B]], grad: Tensor[B]) -> tuple[Tensor[B], Tensor[B], None]:
    x, y = residuals
    return grad * y, grad * x, None


product.defvjp(product_forward, product_backward)
assert_type(product(x, x, factor=3.0), Tensor[Autodiff[NumPy]])


@custom_jvp
def square(x: Tensor[B]) -> Tensor[B]:
    return x * x


@square.defjvp
def square_jvp(primals: tuple[Tensor[B]], tangents: tuple[Tensor[B]]) -> tuple[Tensor[B], Tensor[B]]:
    (x,), (t,) = primals, tangents
    return x * x, t * x * 2.0


assert_type(square(x), Tensor[Autodiff[NumPy]])
assert_type(square(x.inner()), Tensor[NumPy])


# Hooks are given tensors of the inner backend.
def halved(grad: Tensor[NumPy]) -> Tensor[NumPy]:
    return grad * 0.5


def noted(grads: list[Tensor[NumPy] | None]) -> None:
    for found in grads:
        assert found is None or found.device is NumPy()


def passed_on(grads: tuple[Tensor[Any], ...], of_result: tuple[Tensor[NumPy]]) -> None:
    assert len(grads) == len(of_result)


assert_type(x.register_hook(halved), tuple[Tensor[Autodiff[NumPy]], HookHandle])
assert_type(x.register_hook(lambda grad: grad.clamp(max=1.0))[0], Tensor[Autodiff[NumPy]])
assert_type(x.exp().register_node_hook(after=passed_on)[0], Tensor[Autodiff[NumPy]])
hooked, handle = register_multi_grad_hook([x, x.exp()], noted)
assert_type(hooked, tuple[Tensor[Autodiff[NumPy]], ...])
first, _ = register_multi_grad_hook([x], lambda grad: print(grad.shape), mode="any")
with handle:
    hooked[0].sum().backward()

# Where a strategy recomputes, gradients are still tensors of the backend that the user named.
balanced = Tensor[Autodiff[Balanced[NumPy]]].from_data([1.0, 2.0]).require_grad()
assert_type(backward(balanced.sum()), Gradients[NumPy])
assert_type(backward([balanced], [Tensor[NumPy].ones((2,))], inputs=[balanced])[balanced], Tensor[NumPy])
assert_type(grad(balanced.sum(), [balanced]), tuple[Tensor[NumPy], ...])
assert_type(grad(balanced.sum(), balanced, allow_unused=True), tuple[Tensor[NumPy] | None, ...])
assert_type(grad(balanced.sum(), balanced, materialize_grads=True), tuple[Tensor[NumPy], ...])
assert_type(balanced.register_hook(halved), tuple[Tensor[Autodiff[Balanced[NumPy]]], HookHandle])
assert_type(balanced.exp().register_node_hook(after=passed_on)[0], Tensor[Autodiff[Balanced[NumPy]]])
told, _ = register_multi_grad_hook([balanced], noted)
assert_type(told, tuple[Tensor[Autodiff[Balanced[NumPy]]], ...])
register_multi_grad_hook([balanced], lambda grad: print(grad.shape), mode="any")
assert_type(grad(x.sum(), x, allow_unused=True, materialize_grads=True), tuple[Tensor[NumPy], ...])
assert_type(backward([x.sum()]), Gradients[NumPy])


# Generic code has hooks, too.
def hooked_anywhere(t: Tensor[Autodiff[B]]) -> Tensor[Autodiff[B]]:
    return t.register_hook(lambda grad: grad * 2.0)[0]


assert_type(hooked_anywhere(x), Tensor[Autodiff[NumPy]])


# Modes decorate with and without parentheses.
@no_grad
def quiet(t: Tensor[Train]) -> Tensor[Train]:
    return t * 2


@no_grad()
def quiet_too(t: Tensor[Train]) -> Tensor[Train]:
    return t * 2


assert_type(quiet(Tensor[Train].ones((2,))), Tensor[Autodiff[NumPy]])
assert_type(quiet_too(Tensor[Train].ones((2,))), Tensor[Autodiff[NumPy]])


# The function given to on_ready takes the leaf and its gradient, a plain tensor.
def arrived(leaf: Tensor[Any], gradient: Tensor[NumPy]) -> None:
    print(leaf.shape, gradient.shape)


assert_type(x.sum().backward(on_ready=arrived), Gradients[NumPy])
assert_type(balanced.sum().backward(on_ready=arrived), Gradients[NumPy])
assert_type(backward([x.sum()], on_ready=arrived), Gradients[NumPy])
