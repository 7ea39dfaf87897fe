"""`gradcheck` and `gradgradcheck`: comparison of derivatives with central differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeAlias

import numpy as np

from burnpy.autodiff import Autodiff
from burnpy.backend.dtypes import complex128, float64
from burnpy.backend.errors import ArgumentError, BurnpyError, DeviceError, DTypeError, KindError, NotTrackedError
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import DIFFERENTIABLE, ComplexTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.testing.derivatives import Function, Problem, by_differences, by_forward, by_reverse, results

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType


class GradcheckError(BurnpyError, AssertionError):
    """A wrong derivative, or a function that cannot be differentiated: see the message."""


class Options(NamedTuple):
    """The checks and tolerances of a call of `gradcheck`."""

    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    forward: bool
    backward: bool
    elements: int
    together: tuple[tuple[bool, ...], ...]
    """For each random direction of all inputs at once: whether forward mode takes the tangents apart, or both ways."""


Inputs: TypeAlias = Tensor[Any] | ComplexTensor[Any] | Sequence[Tensor[Any] | ComplexTensor[Any]]


@explained
def gradcheck(
    f: Function,
    inputs: Inputs,
    *more: Never,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_forward_ad: bool = True,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    elements: int = 32,
    seed: int = 0,
) -> bool:
    """Check derivatives in reverse and forward mode against central differences.

    The arguments that PyTorch's has too mean the same, but forward mode is checked by default: for a `Function` without
    jvp() pass ``check_forward_ad=False``, here and to `gradgradcheck`.

    The results of ``f`` are multiplied by random weights and summed; the sum's derivative with respect to each input is
    compared element by element for inputs with at most ``elements`` elements, and along two random directions. ``f``
    must also be deterministic and change no input, and gradients must have the shape and dtype of their input.

    Args:
        f: a function of as many tensors as there are inputs, on any device, that returns one or several float tensors.
        inputs: float64 or complex128 tensors on one device, at points where ``f`` is differentiable; not changed.
        *more: must be empty; the error explains that several inputs are passed as one tuple.
        eps: the step of the central differences.
        atol: the absolute tolerance.
        rtol: the tolerance relative to the central difference.
        raise_exception: whether to raise if the check fails; otherwise return False.
        nondet_tol: the tolerated difference of two runs on the same inputs.
        check_undefined_grad: if there are several results, check that an undefined gradient of one counts as zeros.
        check_forward_ad: check forward mode, `Forward`; False for a `Function` without jvp().
        check_backward_ad: check reverse mode, `Autodiff`.
        fast_mode: check along random directions of all inputs at once, whose number is independent of the number and
            the size of the inputs; where they find an error, each input is checked, to name it.
        elements: inputs with more elements are checked along random directions only, in any case.
        seed: the seed of the random weights and directions.

    Returns:
        Whether the check passed.

    Raises:
        GradcheckError: the check failed; the message names the input, the element or direction and both numbers.
        DTypeError: an input or a result is neither float64 nor complex128; others are too inexact for differences.
        ArgumentError, KindError, DeviceError: inputs or results are invalid, or both modes are switched off.

    >>> x = Tensor[NumPy].from_data([0.3, -0.7], dtype="float64")
    >>> gradcheck(lambda x: (x * x).exp(), x)
    True
    >>> gradcheck(lambda x, y: x * y, (x, x + 1.0))  # several inputs are one tuple
    True
    """
    if more:
        raise ArgumentError(
            f"gradcheck() takes all inputs as one tuple, got {1 + len(more)} by position; write "
            f"gradcheck(f, ({', '.join('abcdefgh'[: 1 + len(more)])}))"
        )
    if not (check_forward_ad or check_backward_ad):
        raise ArgumentError("gradcheck() got check_forward_ad=False and check_backward_ad=False; enable one of them")
    together = ((True,), (False,)) if fast_mode or not elements else ()
    options = Options(
        atol, rtol, nondet_tol, check_undefined_grad, check_forward_ad, check_backward_ad,
        0 if fast_mode else elements, together,
    )  # fmt: skip
    problem = _problem("gradcheck", f, inputs, eps, seed)
    try:
        _check(problem, options)
    except NotTrackedError as error:
        if check_forward_ad and "forward mode" in str(error):
            raise NotTrackedError(f"{error}; check_forward_ad=False checks reverse mode alone") from None
        raise
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


@explained
def gradgradcheck(
    f: Function,
    inputs: Inputs,
    grad_outputs: Tensor[Any] | Sequence[Tensor[Any]] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_forward_ad: bool = True,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    elements: int = 32,
    seed: int = 0,
) -> bool:
    """Check second derivatives against central differences: `gradcheck` of the gradients of ``f``.

    The gradients are differentiated in reverse-over-reverse mode, ``Autodiff[Autodiff[B]]``, and in
    forward-over-reverse mode, ``Autodiff[Forward[B]]``, with respect to the inputs and to the cotangents of the
    results. Arguments, result and errors are those of `gradcheck`, except for ``grad_outputs``, the cotangents:
    tensors like the results of ``f``, random by default.

    >>> x = Tensor[NumPy].from_data([0.3, -0.7], dtype="float64")
    >>> gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    first = _problem("gradgradcheck", f, inputs, eps, seed)
    seeds = first.weights if grad_outputs is None else _like(first.weights, grad_outputs)
    return gradcheck(
        _gradients_of(first), (*first.inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad, fast_mode=fast_mode, elements=elements, seed=seed + 1,
    )  # fmt: skip


def check_briefly(f: Function, inputs: Sequence[Tensor[Any]], order: int) -> None:
    """Check first or second derivatives along one random direction of all inputs at once.

    They are compared a hundred times as exactly as by `gradcheck`, so that a sum of many elements does not hide the
    error of one. Where they differ, the message names the input, and the element if there are few.

    Raises:
        GradcheckError: the check failed.
    """
    options = Options(1e-5, 1e-5, 0.0, True, True, True, 32, ((True, False),))
    problem = _problem("gradcheck", f, inputs, 1e-6, 0)
    if order == 2:
        problem = _problem("gradgradcheck", _gradients_of(problem), (*problem.inputs, *problem.weights), 1e-6, 1)
    _check(problem, options)


def _gradients_of(problem: Problem) -> Function:
    """Return the function that computes gradients from the inputs and the results' cotangents."""
    count = len(problem.inputs)
    return lambda *args: _backward(problem.function, args[:count], args[count:])


def _backward(f: Function, inputs: Sequence[Tensor[Any]], seeds: Sequence[Tensor[Any]]) -> list[Tensor[Any]]:
    """Compute the gradients of all inputs by one backward pass, on the device of the inputs."""
    leaves: list[Any] = [type(x).from_inner(x).require_grad() for x in inputs]
    roots = [(out._primitive, seed._primitive) for out, seed in zip(results(f, leaves), seeds, strict=True)]
    device: Any = Autodiff(inputs[0].device)
    gradients = device.gradients(roots, retain_graph=False)
    return [
        x._like(gradients[leaf._primitive.node])
        if leaf._primitive.node in gradients
        else x._like(x.device.full(x.shape, 0.0, x.dtype))
        for x, leaf in zip(inputs, leaves, strict=True)
    ]


def _like(weights: Sequence[Tensor[Any]], given: Any) -> list[Tensor[Any]]:
    """Check that ``given`` has the number, shapes and dtypes of the results, and return it as a list."""
    seeds: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    expected = [(w.shape, w.dtype) for w in weights]
    if not all(isinstance(s, DIFFERENTIABLE) for s in seeds) or [(s.shape, s.dtype) for s in seeds] != expected:
        raise ArgumentError(
            f"gradgradcheck() got grad_outputs={given!r:.80}; expected tensors of shapes "
            f"{', '.join(str(w.shape) for w in weights)} and dtype {weights[0].dtype}, as the results have"
        )
    return seeds


def _problem(operation: str, f: Function, inputs: Inputs, eps: float, seed: int) -> Problem:
    if not callable(f):
        raise KindError(f"{operation}() takes a function and its inputs, not {f!r:.80}")
    if not isinstance(inputs, Iterable):
        raise KindError(
            f"{operation}() takes float tensors as inputs, one or a tuple of several, not {describe(inputs)}"
        )
    xs = (inputs,) if isinstance(inputs, TensorBase) else tuple(inputs)
    if not xs:
        raise ArgumentError(f"{operation}() got no inputs; give at least one float64 tensor")
    for k, x in enumerate(xs):
        if not isinstance(x, DIFFERENTIABLE):
            raise KindError(
                f"{operation}() takes float tensors, and input {k} is {x!r}; bind other arguments in the function"
            )
        if x.device is not xs[0].device:
            raise DeviceError(f"{operation}() got inputs on {xs[0].device} and {x.device}; all must be on one device")
        if x.dtype not in (float64, complex128):
            raise DTypeError(
                f"{operation}() needs float64 or complex128, and input {k} is {x.dtype}: with a step of {eps} "
                f"differences of {x.dtype} are mostly rounding; convert it first, as in x.to_dtype('float64')"
            )
    xs = tuple(x.detach().set_require_grad(x.is_require_grad()) for x in xs)  # results of operations are points too
    generator = np.random.default_rng(seed)
    before = [x.to_numpy().copy() for x in xs]
    outs = results(f, xs)  # type: ignore[arg-type]  # complex ones too
    weights = [out._like(out.device.from_numpy(_direction(generator, out.shape, out.dtype))) for out in outs]
    before += [weight.to_numpy().copy() for weight in weights]
    return Problem(f, xs, outs, weights, before, eps, generator)  # type: ignore[arg-type]  # as above


def _direction(generator: np.random.Generator, shape: tuple[int, ...], dtype: DType = float64) -> NDArray[Any]:
    """Sample numbers of magnitude ½ to 1½ with random signs: none is so small that it would hide an error."""
    out = np.asarray(generator.uniform(0.5, 1.5, shape) * generator.choice([-1.0, 1.0], shape))
    return out + 1j * _direction(generator, shape) if dtype.kind == "c" else out


def _check(problem: Problem, options: Options) -> None:
    _unchanged(problem, "the function")
    _deterministic(problem, options.nondet_tol)
    _unchanged(problem, "the function")
    gradients = _gradients(problem, options) if options.backward else []
    if options.together:
        try:
            _check_together(problem, gradients, options)
        except GradcheckError:
            _check_each(problem, gradients, options)  # to name the input
            raise
    else:
        _check_each(problem, gradients, options)
    _unchanged(problem, "forward mode")


def _check_each(problem: Problem, gradients: list[NDArray[Any]], options: Options) -> None:
    """Check the derivatives with respect to each input in turn."""
    for k, x in enumerate(problem.inputs):
        for name, direction in _directions(problem.generator, x.shape, x.dtype, options.elements):
            _check_along(problem, {k: direction}, f"input {k}, {name}", gradients, options)


def _check_together(problem: Problem, gradients: list[NDArray[Any]], options: Options) -> None:
    """Check the derivatives as all inputs move at once: tangents one by one in one direction, together in another."""
    for d, ways in enumerate(options.together):
        moving = [(k, x) for k, x in enumerate(problem.inputs) if 0 not in x.shape]
        directions = {k: _direction(problem.generator, x.shape, x.dtype) for k, x in moving}
        _check_along(problem, directions, f"all inputs, random direction {d}", gradients, options, ways)


def _check_along(
    problem: Problem,
    directions: dict[int, NDArray[Any]],
    name: str,
    gradients: list[NDArray[Any]],
    options: Options,
    ways: tuple[bool, ...] = (False,),
) -> None:
    """Check the derivative along directions of some inputs; in forward mode with a pass for each, if ``ways`` says so.
    With one input, a pass for each is the pass for all."""
    expected = by_differences(problem, directions)
    if options.backward:
        actual = sum(float((gradients[k] * direction).sum().real) for k, direction in directions.items())
        _compare("reverse", name, actual, expected, options)
    if options.forward:
        for apart in ways if len(directions) > 1 else ways[:1]:
            passes = [{k: direction} for k, direction in directions.items()] if apart else [directions]
            _compare("forward", name, sum(_forward(problem, name, each) for each in passes), expected, options)


def _gradients(problem: Problem, options: Options) -> list[NDArray[Any]]:
    """Compute the gradients in reverse mode, and check all that does not need differences."""
    gradients = by_reverse(problem)
    _unchanged(problem, "the backward pass")
    for k, (x, gradient) in enumerate(zip(problem.inputs, gradients, strict=True)):
        if (gradient.shape, gradient.dtype) != (x.shape, x.dtype):
            raise GradcheckError(
                f"the gradient of input {k} has shape {gradient.shape} and dtype {gradient.dtype}, "
                f"and the input has {x.shape} and {x.dtype}"
            )
    for k, gradient in enumerate(by_reverse(problem)):
        if not _same(gradient, gradients[k], options.nondet_tol):
            raise GradcheckError(
                f"two backward passes gave different gradients of input {k}: {gradients[k]}, then {gradient}"
            )
    if options.undefined and len(problem.weights) > 1:
        _check_undefined(problem, gradients, options)
    return gradients


def _check_undefined(problem: Problem, gradients: list[NDArray[Any]], options: Options) -> None:
    """Check that the gradients of each result alone add up to the gradients of all results together."""
    apart = [by_reverse(problem, only=j) for j in range(len(problem.weights))]
    for k, gradient in enumerate(gradients):
        total = sum(parts[k] for parts in apart)
        if not np.allclose(total, gradient, options.rtol, options.atol, equal_nan=True):
            raise GradcheckError(
                f"the gradients of input {k} that start from one result each add up to {total}, and the one that "
                f"starts from all is {gradient}: a result without a gradient does not count as zeros"
            )


def _forward(problem: Problem, name: str, directions: dict[int, NDArray[Any]]) -> float:
    """Compute the derivative of the weighted sum of the results in forward mode."""
    tangents = by_forward(problem, directions)
    for j, (tangent, weight) in enumerate(zip(tangents, problem.weights, strict=True)):
        if (tangent.shape, tangent.dtype) != (weight.shape, weight.dtype):
            raise GradcheckError(
                f"the tangent of result {j}, by {name}, has shape {tangent.shape} and dtype "
                f"{tangent.dtype}, and the result has {weight.shape} and {weight.dtype}"
            )
    return sum(float((t * w.to_numpy()).sum().real) for t, w in zip(tangents, problem.weights, strict=True))


def _directions(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: DType, elements: int
) -> list[tuple[str, NDArray[Any]]]:
    """Return the directions in which to differentiate an input, each with its name: of both parts if complex."""
    directions = []
    if math.prod(shape) <= elements:  # first, since a failure then names the element
        for position in np.ndindex(shape):
            unit = np.zeros(shape, dtype)
            unit[position] = 1.0
            directions.append((f"element {position}", unit))
            if dtype.kind == "c":
                directions.append((f"element {position}, imaginary part", 1j * unit))
    if 0 not in shape:
        directions += [(f"random direction {d}", _direction(generator, shape, dtype)) for d in range(2)]
    return directions


def _compare(mode: str, name: str, actual: float, expected: float, options: Options) -> None:
    atol, rtol = options.atol, options.rtol
    if not abs(actual - expected) <= atol + rtol * abs(expected):  # so that NaN fails
        raise GradcheckError(
            f"derivative with respect to {name}: {mode} mode gives {actual!r}, central differences give {expected!r} "
            f"(of the results' weighted sum; accepted were {atol} + {rtol} × the latter)"
        )


def _deterministic(problem: Problem, tolerance: float) -> None:
    for k, (x, y) in enumerate(zip(problem.results, results(problem.function, problem.inputs), strict=True)):
        if not _same(x.to_numpy(), y.to_numpy(), tolerance):
            raise GradcheckError(
                f"two calls of the function gave different results {k}: {x.to_numpy()}, then {y.to_numpy()}"
            )


def _unchanged(problem: Problem, who: str) -> None:
    names = [f"input {k}" for k in range(len(problem.inputs))]
    names += [f"the gradient of result {k} that it starts from" for k in range(len(problem.weights))]
    for name, x, old in zip(names, (*problem.inputs, *problem.weights), problem.before, strict=True):
        if not _same(x.to_numpy(), old):
            raise GradcheckError(f"{who} changed {name} in place: it was {old} and is {x.to_numpy()}")


def _same(x: NDArray[Any], y: NDArray[Any], tolerance: float = 0.0) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    return x.tobytes() == y.tobytes() or np.allclose(x, y, 0.0, tolerance, equal_nan=True)
