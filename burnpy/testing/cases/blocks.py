"""Functions that samples are made of beside the operations: loops, checkpoints, solvers, losses, densities, draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from burnpy import distributions, linalg
from burnpy.autodiff import Function, checkpoint
from burnpy.func import cg, cond, fixed_point, grad, jvp, minimize, odeint, root, scan, vmap, while_loop
from burnpy.nn import functional
from burnpy.tensor.joining import cat, stack, where
from burnpy.tensor.tensor import Tensor
from burnpy.testing.cases.linalg import positive, regular
from burnpy.testing.cases.samples import x
from burnpy.testing.rounding import rounded


@dataclass(frozen=True)
class Block:
    """A function of tensors that samples may call, with examples of its arguments as the conformance suite's rows have.

    >>> from burnpy.testing.cases.samples import x
    >>> block = Block("cube", lambda x: x * x * x, ((x(2, 3),),), any_shape=True)
    """

    name: str
    function: Callable[..., Any]
    examples: tuple[tuple[Any, ...], ...]
    kind: str = "own"  #: samples choose a kind first, each equally often, and then a block of it
    any_shape: bool = False  #: whether tensors of other shapes do, too
    draws: bool = False  #: whether it draws random numbers
    by_value: bool = False  #: whether values decide what it draws: batches draw others, derivatives are of quantiles
    narrow: bool = False  #: whether it computes in float32 on the way
    loose: float = 1.0  #: the factor by which rounding errors may exceed those of simple operations


BLOCKS: dict[str, Block] = {}
"""The building blocks by name."""


def _add(
    kind: str,
    name: str,
    function: Callable[..., Any],
    *examples: Any,
    any_shape: bool = False,
    draws: bool = False,
    by_value: bool = False,
    narrow: bool = False,
    loose: float = 1.0,
) -> None:
    given = tuple(e if isinstance(e, tuple) else (e,) for e in examples)
    BLOCKS[name] = Block(name, function, given, kind, any_shape, draws, by_value, narrow, loose)


class _Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * x * 3.0

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_tensors
        return tangent * x * x * 3.0


_any = x(2, 3)
_block = partial(_add, "control flow")
_block("Function", _Cube.apply, _any, any_shape=True)
_block("checkpoint", lambda x: checkpoint(lambda y: (y * y.sin()).tanh() + y, x), _any, any_shape=True)
_block(
    "cond", lambda x, y: cond((x.sum() > y.sum()), lambda a, b: a.sin() * b, lambda a, b: a * a - b, x, y), (_any, _any)
)
_block("scan", lambda c, xs: scan(lambda h, v: ((h * 0.5 + v).tanh(), h.sum()), c, xs), (x(3), x(4, 3)))
_block(
    "scan in sections", lambda c, xs: scan(lambda h, v: ((h * 0.5 + v).tanh(), h * v), c, xs, every=2), (x(3), x(4, 3))
)
_block(
    "scan reversed", lambda c, xs: scan(lambda h, v: (h * v.cos() + v, h.sin()), c, xs, reverse=True), (x(3), x(4, 3))
)
_block("while_loop", lambda x: while_loop(lambda s: (s * s).sum() < 40.0, lambda s: s * 1.5 + 0.5, x), x(3))
_block(
    "checkpointed scan",
    lambda c, xs: checkpoint(lambda c, xs: scan(lambda h, v: ((h + v).sin(), h), c, xs), c, xs),
    (x(3), x(4, 3)),
)
_block = partial(_add, "transformation")
_block("gradient", lambda x: grad(lambda y: (y.sin() * y).sum())(x), _any, any_shape=True)
_block("tangent", lambda x: jvp(lambda y: y.tanh() * y, (x,), (x.cos(),))[1], _any, any_shape=True)
_block("vmap", lambda x, y: vmap(lambda a: (a * y).softmax(0))(x), (x(3, 4), x(4)))
_block("vmap of a matrix", lambda a, y: vmap(lambda v: a @ v)(y), (x(3, 4), x(2, 4)))
_block = partial(_add, "arrangement")
_block("where", lambda x, y: where(x > y, x * y, y.sin()), (_any, _any))
_block("rows and columns", lambda x: x.softmax(-1) * x.sum(-1), x(3, 3), x(4, 4))
_block("cat", lambda x, y: cat([x, y, x], 0), (x(2, 3), x(4, 3)))
_block("stack", lambda x, y: stack([x, y], 1), (x(2, 3), x(2, 3)))
_block("index", lambda x: x[1:, ::2], x(3, 4))
_block("index by tensor", lambda x: x[x.argsort(0)[:, 0]], x(3, 4))
_block("at set", lambda x, y: x.at[1].set(y), (x(3, 4), x(4)))
_block("at add", lambda x, y: x.at[x.argmax(0)].add(y), (x(3, 4), x(4, 4)))
_block("einsum", lambda x, y: (x.unsqueeze(2) * y.unsqueeze(0)).sum(1), (x(2, 3), x(3, 4)))
_block = partial(_add, "solver")
_block(
    "odeint",
    lambda y, t: odeint(lambda s, y: -y * t.abs() + s, y, [0.0, 0.5], method="rk4", substeps=2).y[-1],
    (x(3), x(3)),
)
_block(
    "odeint adaptive",
    lambda y: odeint(lambda s, y: -y + s, y, [0.0, 0.4], rtol=1e-3, atol=1e-4).y[-1],
    (x(3),),
    loose=1e3,
)
_block(
    "event time",
    lambda a: odeint(lambda s, y: -y, a, [0.0, 4.0], event=lambda s, y: y.sum() - 0.5).t[-1],
    x(1, low=1.0, high=3.0),
    loose=1e3,
)
_block("root", lambda a: root(lambda y: y * y * y + y - a, a * 0.0).x, x(3), loose=300.0)
_block("fixed_point", lambda a: fixed_point(lambda y: y.cos() * 0.4 + a * 0.3, a * 0.0).x, x(3), loose=300.0)
_block(
    "minimize",
    lambda a: minimize(lambda y: ((y - a).square() + 0.1 * y.square().square()).sum(), a * 0.0).x,
    x(2),
    loose=300.0,
)
_block("cg", lambda a, b: cg(lambda v: a @ v, b).x, (positive(3, 3), x(3)), loose=300.0)

_block = partial(_add, "draw")
_block("dropout", lambda x: functional.dropout(x, 0.5), _any, any_shape=True, draws=True)
_block(
    "checkpointed dropout",
    lambda x: checkpoint(lambda y: functional.dropout(y.sin(), 0.3) * y, x),
    _any,
    any_shape=True,
    draws=True,
)
_block("gumbel_softmax", lambda x: functional.gumbel_softmax(x, tau=0.7, dim=-1), _any, draws=True, narrow=True)
_block("normal sample", lambda m, s: distributions.Normal(m, s).rsample(), (x(3), x(3, low=0.3, high=2.0)), draws=True)
_block(
    "gamma sample", lambda a: distributions.Gamma(a, 1.5).rsample(), x(3, low=0.5, high=3.0), draws=True, by_value=True
)
_block(
    "beta sample",
    lambda a, b: distributions.Beta(a, b).rsample(),
    (x(3, low=0.5, high=3.0), x(3, low=0.5, high=3.0)),
    draws=True,
    by_value=True,
)

_block = partial(_add, "loss")
_block(
    "softmax_cross_entropy", lambda x, w: functional.cross_entropy(x, x.argmin(1), weight=w), (x(4, 3), x(3, low=0.2))
)
_block("nll_loss", lambda x, w: functional.nll_loss(x.log_softmax(1), x.argmin(1), weight=w), (x(4, 3), x(3, low=0.2)))
_block(
    "multi_margin_loss", lambda x, w: functional.multi_margin_loss(x, x.argmin(1), weight=w), (x(4, 3), x(3, low=0.2))
)
_block(
    "bce_with_logits",
    lambda x, t, p: functional.binary_cross_entropy_with_logits(x, t, pos_weight=p),
    (x(4, 3), x(4, 3, low=0.1, high=0.9), x(3, low=0.2)),
)
_block("gaussian_nll_loss", functional.gaussian_nll_loss, (x(4, 3), x(4, 3), x(4, 3, low=0.2)))
_block("huber_loss", functional.huber_loss, (_any, _any))
_block("kl_div", lambda p, q: functional.kl_div(p.log_softmax(-1), q.softmax(-1)), (_any, _any))
_block = partial(_add, "layer")
_block("embedding_bag", lambda w, x: functional.embedding_bag(x.argsort(1), w, mode="mean"), (x(3, 4), x(2, 3)))
_block("attention", functional.scaled_dot_product_attention, (x(2, 3, 4), x(2, 5, 4), x(2, 5, 4)))
_block("layer_norm", lambda x, w, b: functional.layer_norm(x, (3,), w, b), (x(4, 3), x(3), x(3)))
_block("group_norm", lambda x: functional.group_norm(x, 2), x(2, 4, 3))
_block("conv1d", lambda x, w: functional.conv1d(x, w, padding=1), (x(2, 3, 6), x(4, 3, 3)))
_block("conv_transpose2d", lambda x, w: functional.conv_transpose2d(x, w, stride=2), (x(1, 2, 3, 3), x(2, 3, 2, 2)))
_block("max_pool2d", lambda x: functional.max_pool2d(x, 2), x(1, 2, 4, 4), x(2, 4, 4))
_block("grid_sample", functional.grid_sample, (x(1, 2, 4, 4), x(1, 3, 3, 2, low=-0.9, high=0.9)))
_block("interpolate", lambda x: functional.interpolate(x, size=5, mode="linear"), x(1, 2, 3))
_block("normalize", lambda x: functional.normalize(x, dim=-1), _any)
_block("glu", lambda x: functional.glu(x, dim=-1), x(3, 4))

_SPD, _REGULAR = positive(3, 3), regular(3, 3)
_SMALL = x(3, 3, low=-1.0, high=1.0)
_SPECTRA = ((3.0, 1.0, 2.0), (1e4, 1.02, 1.01), (1.0, 1.001, 30.0), (1e-3, 2e-3, 1.0))
"""Eigenvalues of matrices: apart, graded, and close to each other."""


def _symmetric(a: Any, spectrum: tuple[float, ...]) -> Any:
    """Return a symmetric matrix near a diagonal one."""
    diagonal = Tensor.from_data(np.diag(spectrum), dtype=a.dtype, device=a.device)
    return (a + a.mT) * (0.1 * min(abs(s - t) for s, t in combinations(spectrum, 2))) + diagonal


def _spectral(f: Callable[[Any], Any], spectrum: tuple[float, ...]) -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        w, v = linalg.eigh(_symmetric(a, spectrum))
        return (v * f(w).unsqueeze(-2)) @ v.mT

    return apply


def _polar(spectrum: tuple[float, ...]) -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        u, _, vh = linalg.svd(_symmetric(a, spectrum), full_matrices=False)
        return u @ vh

    return apply


_block = partial(_add, "spectrum")
for _spectrum in _SPECTRA:
    _block(f"square root of a matrix near {_spectrum}", _spectral(lambda w: w.sqrt(), _spectrum), _SMALL, loose=8.0)
    _block(f"inverse root of a matrix near {_spectrum}", _spectral(lambda w: w.rsqrt(), _spectrum), _SMALL, loose=8.0)
    _block(f"polar factor of a matrix near {_spectrum}", _polar(_spectrum), _SMALL, loose=8.0)
_block("eigvalsh", lambda a: linalg.eigvalsh(_symmetric(a, (3.0, 1.0, 2.0))), _SMALL, loose=8.0)
_block("nuclear norm", lambda a: linalg.svdvals(a).sum(), x(3, 4))
_block = partial(_add, "equations")
_block("lstsq", lambda a, b: linalg.lstsq(a, b).solution, (x(4, 2), x(4, 2)))
_block("whitening", lambda a, y: linalg.solve_triangular(linalg.cholesky(a), y, upper=False), (_SPD, x(3, 2)))
_block("inverse", linalg.inv, _REGULAR)
_block("slogdet", lambda a: linalg.slogdet(a)[1], _REGULAR)


def _share(p: Any) -> Any:
    """Return probabilities with rounding errors, which near 1 are large for the other outcome; none exceeds 1."""
    share = rounded(p.sigmoid())
    return where(share > 1.0, 2.0 - share, share)


def _shares(p: Any) -> Any:
    """Return probabilities with rounding errors."""
    return rounded(p.softmax(-1))


_UNIT, _POSITIVE = x(3, low=0.1, high=0.9), x(3, low=0.3, high=3.0)
_FAMILIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "Normal": (distributions.Normal, (x(3), _POSITIVE), x(3)),
    "Laplace": (distributions.Laplace, (x(3), _POSITIVE), x(3)),
    "Cauchy": (distributions.Cauchy, (x(3), _POSITIVE), x(3)),
    "Logistic": (distributions.Logistic, (x(3), _POSITIVE), x(3)),
    "Gumbel": (distributions.Gumbel, (x(3), _POSITIVE), x(3)),
    "LogNormal": (distributions.LogNormal, (x(3), _POSITIVE), _POSITIVE),
    "StudentT": (distributions.StudentT, (_POSITIVE, x(3), _POSITIVE), x(3)),
    "Exponential": (distributions.Exponential, (_POSITIVE,), _POSITIVE),
    "Weibull": (distributions.Weibull, (_POSITIVE, _POSITIVE), _POSITIVE),
    "Gamma": (distributions.Gamma, (_POSITIVE, _POSITIVE), _POSITIVE),
    "Beta": (distributions.Beta, (_POSITIVE, _POSITIVE), _UNIT),
    "Dirichlet": (distributions.Dirichlet, (x(2, 3, low=0.3, high=3.0),), None),
    "VonMises": (distributions.VonMises, (x(3), _POSITIVE), x(3)),
    "Uniform": (distributions.Uniform, (x(3, low=-2.0, high=-1.0), x(3, low=1.0, high=2.0)), x(3, low=-0.9, high=0.9)),
    "Bernoulli": (lambda p: distributions.Bernoulli(logits=p), (x(3),), None),
    "Categorical": (lambda p: distributions.Categorical(logits=p), (x(2, 3),), None),
    "Categorical of probabilities": (lambda p: distributions.Categorical(_shares(p)), (x(2, 3),), None),
    "Bernoulli of probabilities": (lambda p: distributions.Bernoulli(_share(p)), (x(3),), None),
    "Multinomial": (lambda p: distributions.Multinomial(3, _shares(p)), (x(2, 3),), None),
    "Binomial": (lambda p: distributions.Binomial(3, _share(p)), (x(3),), None),
    "NegativeBinomial": (lambda p: distributions.NegativeBinomial(3.0, _share(p)), (x(3),), None),
    "OneHotCategorical": (lambda p: distributions.OneHotCategorical(_shares(p)), (x(2, 3),), None),
    "Geometric": (distributions.Geometric, (_UNIT,), None),
    "Poisson": (distributions.Poisson, (_POSITIVE,), None),
}
"""The families: constructor, parameters, and a value, if it is a float that has a derivative."""


def _entropy(made: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *parameters: made(*parameters).entropy()


def _log_prob(made: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, *parameters: made(*parameters).log_prob(value)


def _divergence(made: Callable[..., Any], count: int) -> Callable[..., Any]:
    return lambda *given: distributions.kl(made(*given[:count]), made(*given[count:]))


def _drawn_log_prob(made: Callable[..., Any]) -> Callable[..., Any]:
    def of(*parameters: Any) -> Any:
        d = made(*parameters)
        return d.log_prob(d.sample())

    return of


def _mixed(p: Any, loc: Any, value: Any) -> Any:
    parts = distributions.Normal(loc, 1.0)
    return distributions.Mixture(distributions.Categorical(_shares(p)), parts).log_prob(value)


_block = partial(_add, "log_prob")
_block("Categorical at a class", lambda p: distributions.Categorical(_shares(p)).log_prob(p.argmax(-1)), x(2, 3))
_block("mixture log_prob", _mixed, (x(2, 3), x(2, 3), x(2)))
for _name, (_made, _parameters, _at) in _FAMILIES.items():
    if _name != "Poisson":
        _add("entropy", f"{_name} entropy", _entropy(_made), _parameters)
    if _at is not None:
        _add("log_prob", f"{_name} log_prob", _log_prob(_made), (_at, *_parameters))
    else:
        _add("log_prob", f"{_name} log_prob", _drawn_log_prob(_made), _parameters, draws=True, by_value=True)
    if _name not in ("Cauchy", "Logistic", "StudentT", "VonMises", "Uniform"):
        _add("divergence", f"{_name} kl", _divergence(_made, len(_parameters)), (*_parameters, *_parameters))
