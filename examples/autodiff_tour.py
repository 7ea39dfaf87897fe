"""PyTorch's introduction to autograd, translated to burnpy: ``python examples/autodiff_tour.py``.

The sections are those of "The Fundamentals of Autograd",
https://docs.pytorch.org/tutorials/beginner/introyt/autogradyt_tutorial.html, and a last one on higher orders. Comments
that start with "PyTorch:" show the equivalent PyTorch code. Everything that the tour claims is asserted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import burnpy
from burnpy import Autodiff, Gradients, Tensor, func
from burnpy.autodiff import enable_grad, no_grad, to_mermaid
from burnpy.backend import Backend, NumPy, Profiled, errors

Infer: TypeAlias = NumPy
Train: TypeAlias = Autodiff[Infer]
B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the inner backend of Autodiff[I], as in burnpy itself


def show(**values: object) -> None:
    """Print values by name."""
    for name, value in values.items():
        print(f"  {name} = {value}")


def a_sine() -> None:
    """Show tracked tensors, the graph, and the gradients that a backward pass returns."""
    print("\nA simple example: the sine of nine angles, tracked")
    # PyTorch: torch.linspace(0.0, 2 * math.pi, steps=9, requires_grad=True)
    a = Tensor[Train].linspace(0.0, 2 * math.pi, steps=9).require_grad()
    b = a.sin()
    c = 2 * b
    d = c + 1
    out = d.sum()
    show(a=a, b=b, out=out)

    # Each result has the node of the operation that created it, and a node has its parents. The numbers 2 and 1 are not
    # in the graph.
    print("What made d, and so on down to the leaf a, which nothing made:")
    step, names = d.grad_fn, list[str]()
    while step is not None:
        print(f"  {step}")
        names.append(step.name)
        step = next(iter(step.next_functions), None)
    assert names == ["add", "mul", "sin", "leaf"]
    assert a.grad_fn is None
    print("The same as a picture, for a page that draws mermaid; to_dot() and to_svg() draw others:")
    print("".join(f"  {line}\n" for line in to_mermaid(out).splitlines()), end="")

    # PyTorch: out.backward(); a.grad. Here a does not change, and backward() returns the gradients.
    grads = out.backward()
    print("The gradient is 2 cos(a):")
    show(grads=grads, da=grads[a])
    assert (grads[a] - 2 * a.inner().cos()).abs().max().item() < 1e-6

    # PyTorch returns None for c.grad, with a warning. Here it is an error, and the message names the solution.
    try:
        grads[c]
    except errors.NotTrackedError as error:
        show(asked_for_c=error)
    c = (2 * a.sin()).retain_grad()  # from here on, c is what retain_grad() returned
    grads = c.square().sum().backward()
    show(dc=grads[c])
    assert (grads[c] - 2 * c.inner()).abs().max().item() < 1e-6


@dataclass(frozen=True)
class TinyModel(Generic[B]):
    """Two linear layers with ReLU between them: a tuple of weights, and a function of them."""

    parameters: tuple[Tensor[B], Tensor[B], Tensor[B], Tensor[B]]

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Map inputs (batch, 1000) to outputs (batch, 10)."""
        w1, b1, w2, b2 = self.parameters
        return (x @ w1 + b1).relu() @ w2 + b2


def descend(model: TinyModel[Autodiff[I]], grads: Gradients[I], rate: float) -> TinyModel[Autodiff[I]]:
    """Return the model after a step of gradient descent, computed on the inner backend."""
    w1, b1, w2, b2 = (Tensor.from_inner(p.inner() - rate * grads[p]).require_grad() for p in model.parameters)
    return TinyModel((w1, b1, w2, b2))


def training() -> None:
    """Train for one step: gradients are values, so there is no zero_grad()."""
    print("\nAutograd in training: one step of a network of two layers")
    burnpy.manual_seed(0)
    x, target = Tensor[Train].normal((16, 1000)), Tensor[Train].normal((16, 10))
    shapes = ((1000, 100), (100,), (100, 10), (10,))
    w1, b1, w2, b2 = (Tensor[Train].normal(s, 0.0, 0.02).require_grad() for s in shapes)
    model = TinyModel((w1, b1, w2, b2))

    loss = (target - model.forward(x)).square().sum()
    grads = loss.backward()
    show(loss=loss.item(), grads=grads, some_weights=w2.inner()[0, :4], their_gradient=grads[w2][0, :4])

    # PyTorch: optimizer.step() changes the weights. Here a function returns the next model; the old one is unchanged.
    trained = descend(model, grads, rate=0.001)
    after = (target - trained.forward(x)).square().sum().item()
    show(loss_after_a_step=after, the_weights_now=trained.parameters[2].inner()[0, :4])
    assert after < loss.item()
    assert w2 is model.parameters[2]

    # PyTorch: gradients of five passes accumulate in .grad unless optimizer.zero_grad() is called in between. Here five
    # passes return five equal gradients. To accumulate them, add them.
    passes = [(target - model.forward(x)).square().sum().backward() for _ in range(5)]
    total = sum(passes[1:], start=passes[0])
    ratio = (total.norm() / grads.norm()).item()
    show(norm_of_one_pass=passes[4].norm().item(), norm_of_five_added=total.norm().item())
    assert math.isclose(passes[4].norm().item(), grads.norm().item(), rel_tol=1e-5)
    assert math.isclose(ratio, 5.0, rel_tol=1e-5)


@no_grad()
def silent_sum(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Return a function that records nothing, even for tracked tensors."""
    return x + y


def validate(x: Tensor[Infer]) -> float:
    """Return a function that cannot record: type checkers reject a tracked tensor as its argument."""
    return x.mean().item()


def off_and_on() -> None:
    """Disable recording for a tensor, a block or a function; or by type."""
    print("\nTurning recording off and on")
    # PyTorch: a.requires_grad = False. Here there are two tensors, one tracked and one not, in the same memory.
    a = Tensor[Train].ones((2, 3)).require_grad()
    plain = a.set_require_grad(False)
    show(tracked=(2 * a).is_require_grad(), switched_off=(2 * plain).is_require_grad())
    assert (2 * a).is_require_grad()
    assert not (2 * plain).is_require_grad()

    with no_grad():
        silent = a + a
        with enable_grad():
            loud = a + a
    show(in_no_grad=silent.is_require_grad(), in_enable_grad=loud.is_require_grad(), by=silent_sum(a, a).grad_fn)
    assert (silent.is_require_grad(), loud.is_require_grad()) == (False, True)
    assert silent_sum(a, a).grad_fn is None

    # The effect of a mode is visible only at run time. The effect of inner() is visible in the type: Tensor[NumPy].
    print("Better: inner() gives the same memory on a backend that cannot record")
    show(inner=a.inner(), detached=a.detach(), mean=validate(a.inner()))
    assert a.inner().device is Infer.device()
    try:
        a.inner().sum().backward()  # type: ignore[misc]  # mypy and pyright reject it as well
    except errors.NotTrackedError as error:
        show(backward_of_a_plain_tensor=error)
    # PyTorch: x.detach().numpy(), as x.numpy() is refused. Here to_numpy() is read-only, so that it needs no detach().
    assert a.to_numpy().tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def nothing_in_place() -> None:
    """Show that tensors are immutable: there are no operations in place that could break a backward pass."""
    print("\nAutograd and operations in place: there are none")
    # PyTorch: a.sin_() raises for a leaf, and for other tensors may overwrite values that a backward pass needs.
    a = Tensor[Train].linspace(0.0, 2 * math.pi, steps=5).require_grad()
    assert not hasattr(a, "sin_")
    try:
        a[0] = 1.0  # type: ignore[index]  # as above
    except errors.ImmutableError as error:
        show(setting_an_element=error)
    b = a.at[0].set(1.0)  # a new tensor, through which gradients go
    grads = b.square().sum().backward()
    show(b=b, da=grads[a])
    assert grads[a].tolist()[0] == 0.0, "the first element of a is not in b"


def profiling() -> None:
    """Profile with `Profiled` inside of Autodiff: time, bytes and FLOPs by operation, forward and backward."""
    print("\nThe profiler: a backend inside of Autodiff that measures every operation")
    # PyTorch: with torch.autograd.profiler.profile() as prf: …; print(prf.key_averages().table(…))
    device = Autodiff[Profiled[Infer]]
    x, y, z = (Tensor.ones((2, 3), device=device).require_grad() for _ in range(3))
    with Profiled.record() as profile:
        for _ in range(100):
            z = (z / x) * y
        z.sum().backward()
    print("".join(f"  {line}\n" for line in str(profile.by_operation()).splitlines()[:8]), end="")
    calls = {(row.operation, row.direction): row.calls for row in profile.by_operation()}
    assert calls["div", "forward"] == calls["mul", "forward"] == 100


def doubled(x: Tensor[B]) -> Tensor[B]:
    """Return x times the power of two that makes its norm at least 1000; the number of iterations depends on x."""
    y = x * 2
    while y.detach().square().sum().sqrt().item() < 1000:
        y = y * 2
    return y


def exponential(x: Tensor[B], y: Tensor[B]) -> Tensor[B]:
    """Return a function of two vectors."""
    return 2 * x.exp() + 3 * y


def vectors_and_jacobians() -> None:
    """Compute vector-Jacobian products by backward(), and Jacobians, vjp and jvp by `burnpy.func`."""
    print("\nAdvanced topic: vector-Jacobian products")
    x = Tensor[Train].from_data([0.5, -1.0, 2.0]).require_grad()
    y = doubled(x)
    try:
        y.backward()
    except errors.ShapeError as error:
        show(backward_of_a_vector=error)
    # PyTorch: y.backward(v). The vector is the gradient that the pass starts from, a plain tensor.
    v = Tensor[Infer].from_data([0.1, 1.0, 0.0001])
    grads = y.backward(v)
    show(y=y, v_times_jacobian=grads[x])
    factor = (grads[x] / v).tolist()
    assert factor == [512.0, 512.0, 512.0], "one power of two for all"

    print("The high-level API: functions of functions, from plain tensors to plain tensors")
    a, b = Tensor[Infer].from_data([0.1, 0.2, 0.3]), Tensor[Infer].from_data([1.0, 2.0, 3.0])
    # PyTorch: torch.autograd.functional.jacobian(exponential, (a, b)), or torch.func.jacrev(exponential, (0, 1))(a, b)
    by_a, by_b = func.jacobian(exponential, argnums=(0, 1))(a, b)
    show(by_a=by_a, by_b=by_b)
    assert (by_a - 2 * a.exp() * Tensor[Infer].eye(3)).abs().max().item() < 1e-6
    assert by_b.tolist() == (3 * Tensor[Infer].eye(3)).tolist()

    p = Tensor[Infer].from_data([0.5, -1.0, 2.0])
    out, pull = func.vjp(doubled, p)  # PyTorch: torch.func.vjp(doubled, p), the same
    show(vjp=pull(v)[0])
    assert pull(v)[0].tolist() == grads[x].tolist()
    assert out.tolist() == y.tolist()
    _, tangent = func.jvp(doubled, (p,), (v,))  # forward mode: the Jacobian times a vector
    show(jvp=tangent)
    assert tangent.tolist() == grads[x].tolist(), "here the Jacobian is a number times the identity"


def cubes(x: Tensor[B]) -> Tensor[B]:
    """Return the sum of x³, a scalar whose Hessian is diagonal with 6 x."""
    return (x * x * x).sum()


def higher_orders() -> None:
    """Compute higher derivatives, which the tutorial does not cover, by functions or by type."""
    print("\nHigher orders")
    x, v = Tensor[Infer].from_data([1.0, 2.0]), Tensor[Infer].from_data([1.0, 10.0])
    show(hessian=func.hessian(cubes)(x), hvp=func.hvp(cubes, x, v)[1])
    assert func.hessian(cubes)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert func.hvp(cubes, x, v)[1].tolist() == [6.0, 120.0]

    # PyTorch: torch.autograd.grad(…, create_graph=True). Here the type determines how often one can differentiate.
    twice = Tensor[Autodiff[Train]].from_data([1.0, 2.0]).require_grad()
    slope = cubes(twice).backward()[twice]  # a Tensor[Autodiff[NumPy]]
    curvature = slope.sum().backward()[twice.inner()]  # a Tensor[NumPy]
    show(slope=slope, curvature=curvature)
    assert (slope.tolist(), curvature.tolist()) == ([3.0, 12.0], [6.0, 12.0])

    # A nested derivative whose inner function uses the outer variable: d/dx [x · d/dy (x · y)] is 2 x.
    def outer(x: Tensor[B]) -> Tensor[B]:
        def inner(y: Tensor[B]) -> Tensor[B]:
            return x * y

        return x * func.grad(inner)(x)

    nested = func.grad(outer)(Tensor[Infer].from_data(3.0))
    show(nested=nested)
    assert nested.item() == 6.0


def main() -> None:
    """Run all sections."""
    for section in (
        a_sine,
        training,
        off_and_on,
        nothing_in_place,
        profiling,
        vectors_and_jacobians,
        higher_orders,
    ):
        section()


if __name__ == "__main__":
    main()
