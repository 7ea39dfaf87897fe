"""`Function` and custom rules beside torch.autograd.Function: several outputs, options of ctx, second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy.func
from burnpy import Autodiff, Tensor
from burnpy.autodiff import Context, Function, custom_jvp, custom_vjp, once_differentiable
from burnpy.backend import NumPy, errors
from tests.parity.closeness import assert_close

func: Any = burnpy.func  # as untyped as torch.func
torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # its own

Train = Autodiff[NumPy]
Twice = Autodiff[Train]
rng = np.random.default_rng(2)
X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))


class Swirl(Function):
    """x² y and x + sin y, with a derivative that is not the function's, so that it is seen to be used."""

    @staticmethod
    def forward(ctx: Context, x: Any, y: Any, scale: float) -> Any:
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * x * y * scale, x + y.sin()

    @staticmethod
    def backward(ctx: Context, first: Any, second: Any) -> Any:
        x, y = ctx.saved_tensors
        return first * x * y * ctx.scale + second, first * x * x + second * y.cos() * 3.0, None

    @staticmethod
    def jvp(ctx: Context, tx: Any, ty: Any, _: Any) -> Any:
        x, y = ctx.saved_tensors
        return tx * x * y * ctx.scale + ty * x * x, tx + ty * y.cos() * 3.0


class TheirSwirl(torch.autograd.Function):  # type: ignore[misc, name-defined]  # not to a checker
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, scale: float) -> Any:
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.scale = scale
        return x * x * y * scale, x + y.sin()

    backward = staticmethod(Swirl.backward)
    jvp = staticmethod(Swirl.jvp)


def both(device: Any = Train) -> tuple[list[Any], list[Any]]:
    ours = [Tensor.from_data(a, device=device).require_grad() for a in (X, Y)]
    return ours, [torch.tensor(a, requires_grad=True) for a in (X, Y)]


def test_values_and_gradients() -> None:
    (x, y), (x_, y_) = both()
    outs, outs_ = Swirl.apply(x, y, 0.5), TheirSwirl.apply(x_, y_, 0.5)
    grads = (outs[0].exp() * outs[1]).sum().backward()
    (outs_[0].exp() * outs_[1]).sum().backward()
    for out, out_ in zip(outs, outs_, strict=True):
        assert_close(out, out_)
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


def test_one_output_only_is_used() -> None:
    (x, y), (x_, y_) = both()
    grads = Swirl.apply(x, y, 2.0)[1].sum().backward()
    TheirSwirl.apply(x_, y_, 2.0)[1].sum().backward()
    assert_close(grads[x], x_.grad)
    assert_close(grads[y], y_.grad)


def test_second_derivatives_go_through_backward() -> None:
    (x, y), (x_, y_) = both(Twice)
    first = sum(out.sin().sum() for out in Swirl.apply(x, y, 0.5)).backward()
    second = (first[x] * first[y]).sum().backward()
    total = sum(out.sin().sum() for out in TheirSwirl.apply(x_, y_, 0.5))
    gx, gy = torch.autograd.grad(total, [x_, y_], create_graph=True)
    (gx * gy).sum().backward()
    assert_close(second[x.inner()], x_.grad)
    assert_close(second[y.inner()], y_.grad)


def test_forward_mode() -> None:
    ours = [Tensor[NumPy].from_data(a) for a in (X, Y)]
    _, found = func.jvp(lambda x, y: Swirl.apply(x, y, 0.5), tuple(ours), tuple(reversed(ours)))
    with torch.autograd.forward_ad.dual_level():
        duals = [torch.autograd.forward_ad.make_dual(torch.tensor(a), torch.tensor(b)) for a, b in ((X, Y), (Y, X))]
        outs_ = [torch.autograd.forward_ad.unpack_dual(out).tangent for out in TheirSwirl.apply(*duals, 0.5)]
    for tangent, tangent_ in zip(found, outs_, strict=True):
        assert_close(tangent, tangent_)


def _marked(ctx: Any, x: Any) -> Any:
    ctx.set_materialize_grads(False)
    kept, aside = x * 2.0, x * 3.0
    ctx.mark_non_differentiable(aside)
    return kept, aside


def _marked_backward(ctx: Any, kept: Any, aside: Any) -> Any:
    assert aside is None, "not materialized"
    return kept * 5.0


class Marked(Function):
    @staticmethod
    def forward(ctx: Context, x: Any) -> Any:
        return _marked(ctx, x)

    @staticmethod
    def backward(ctx: Context, kept: Any, aside: Any) -> Any:
        return _marked_backward(ctx, kept, aside)


class TheirMarked(torch.autograd.Function):  # type: ignore[misc, name-defined]  # as above
    forward = staticmethod(_marked)
    backward = staticmethod(_marked_backward)


def test_marks_and_missing_gradients() -> None:
    (x, _), (x_, _) = both()
    kept, aside = Marked.apply(x)
    kept_, aside_ = TheirMarked.apply(x_)
    assert aside.is_require_grad() is aside_.requires_grad is False
    kept_.sum().backward()
    assert_close(kept.sum().backward()[x], x_.grad)


def _needs(ctx: Any, x: Any, y: Any) -> Any:
    ctx.save_for_backward(x, y)
    return x * y


def _needs_backward(ctx: Any, grad: Any) -> Any:
    x, _ = ctx.saved_tensors
    assert tuple(ctx.needs_input_grad) == (False, True)
    return None, grad * x


def test_needs_input_grad() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Context, x: Any, y: Any) -> Any:
            return _needs(ctx, x, y)

        @staticmethod
        def backward(ctx: Context, grad: Any) -> Any:
            return _needs_backward(ctx, grad)

    class TheirProduct(torch.autograd.Function):  # type: ignore[misc, name-defined]  # as above
        forward = staticmethod(_needs)
        backward = staticmethod(_needs_backward)

    (_, y), (_, y_) = both()
    TheirProduct.apply(torch.tensor(X), y_).sum().backward()
    assert_close(Product.apply(Tensor[Train].from_data(X), y).sum().backward()[y], y_.grad)


def _doubled(ctx: Any, grad: Any) -> Any:
    return grad * ctx.saved_tensors[0] * 2.0


def test_once_differentiable_refuses_a_second_derivative() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Context, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Context, grad: Any) -> Any:
            return _doubled(ctx, grad)

    class TheirOnce(torch.autograd.Function):  # type: ignore[misc, name-defined]  # as above
        forward = staticmethod(Once.forward)
        backward = staticmethod(torch.autograd.function.once_differentiable(_doubled))

    (x, _), (x_, _) = both(Twice)
    first = Once.apply(x).sum().backward()[x]
    (first_,) = torch.autograd.grad(TheirOnce.apply(x_).sum(), x_, create_graph=True)
    assert_close(first, first_)
    with pytest.raises(errors.GraphError):
        first.sum().backward()
    with pytest.raises(RuntimeError):
        first_.sum().backward()


def test_custom_rules_are_those_of_a_function() -> None:
    @custom_vjp
    def squared(x: Any) -> Any:
        return x * x

    # squared() by itself, not x * x, so that the derivative of the result, too, is the rule's on each level.
    squared.defvjp(lambda x: (squared(x), x), lambda x, grad: (grad * x.sin(),))

    @custom_jvp
    def cubed(x: Any) -> Any:
        return x * x * x

    def push(primals: Any, tangents: Any) -> Any:
        return cubed(*primals), tangents[0] * primals[0].cos()

    cubed.defjvp(push)

    class Theirs(torch.autograd.Function):  # type: ignore[misc, name-defined]  # as above
        @staticmethod
        def forward(ctx: Any, x: Any, power: int) -> Any:
            ctx.save_for_backward(x)
            ctx.power = power
            return x**power

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * (x.sin() if ctx.power == 2 else x.cos()), None

    (x, _), (x_, _) = both(Twice)
    first = (squared(x) * cubed(x)).sum().backward()[x]
    (first_,) = torch.autograd.grad((Theirs.apply(x_, 2) * Theirs.apply(x_, 3)).sum(), x_, create_graph=True)
    assert_close(first, first_)
    second = first.square().sum().backward()[x.inner()]
    (second_,) = torch.autograd.grad(first_.square().sum(), x_)
    assert_close(second, second_)
