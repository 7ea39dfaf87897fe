"""A program that calls SciPy's and scikit-learn's functions with tensors, and prints those that differ from NumPy's.

SciPy supports arrays of other libraries in processes that import it with the environment variable SCIPY_ARRAY_API=1.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np

from burnpy import Autodiff, IntTensor, Tensor, compiled, func
from burnpy.backend import NumPy
from burnpy.docs import generated

fft, integrate, special, stats, vq, rotations = (
    cast("Any", import_module(f"scipy.{name}"))
    for name in ("fft", "integrate", "special", "stats", "cluster.vq", "spatial.transform")
)
decomposition, discriminant_analysis, linear_model, metrics, naive_bayes, pairwise, preprocessing = (
    cast("Any", import_module(f"sklearn.{name}"))
    for name in (
        *("decomposition", "discriminant_analysis", "linear_model", "metrics", "naive_bayes", "metrics.pairwise"),
        "preprocessing",
    )
)
PAGE_PROGRAM = (
    generated.OPERATIONS.with_name("array_api.md").read_text(encoding="utf-8").split("```py\n")[1].split("```")[0]
)
"""The program on the page that needs SciPy to be imported so."""
Call = Callable[[Any, Any], Any]

DIFFERENTIABLE: dict[str, Call] = {
    "special.erf": lambda x, y: special.erf(x),
    "special.log_ndtr": lambda x, y: special.log_ndtr(x),
    "special.gammaln": lambda x, y: special.gammaln(x * x + 1),
    "special.betainc": lambda x, y: special.betainc(x * x + 1, 2.0, special.expit(x)),
    "special.chdtrc": lambda x, y: special.chdtrc(x * x + 1, x * x),
    "special.rel_entr": lambda x, y: special.rel_entr(x * x, x * x + 1),
    "special.xlogy": lambda x, y: special.xlogy(x, x * x + 1),
    "special.logsumexp": lambda x, y: special.logsumexp(x, axis=1),
    "special.log_softmax": lambda x, y: special.log_softmax(x, axis=1),
    "stats.zscore": lambda x, y: stats.zscore(x),
    "stats.skew": lambda x, y: stats.skew(x),
    "stats.kurtosis": lambda x, y: stats.kurtosis(x, axis=None),
    "stats.gmean": lambda x, y: stats.gmean(x * x, axis=1),
    "stats.gstd": lambda x, y: stats.gstd(x * x),
    "stats.iqr": lambda x, y: stats.iqr(x),
    "stats.entropy": lambda x, y: stats.entropy(x * x),
    "stats.trim_mean": lambda x, y: stats.trim_mean(x, 0.2),
    "stats.pearsonr": lambda x, y: stats.pearsonr(x[:, 0], x[:, 1]).statistic,
    "stats.ttest_ind": lambda x, y: stats.ttest_ind(x[:, 0], x[:, 1]).pvalue,
    "stats.f_oneway": lambda x, y: stats.f_oneway(x[:, 0], x[:, 1]).statistic,
    "stats.circvar": lambda x, y: stats.circvar(x),
    "fft.fftshift": lambda x, y: fft.fftshift(x),
    "integrate.trapezoid": lambda x, y: integrate.trapezoid(x * x),
    "cluster.whiten": lambda x, y: vq.whiten(x),
    "spatial.Rotation": lambda x, y: rotations.Rotation.from_rotvec(x).as_matrix(),
    "MinMaxScaler": lambda x, y: preprocessing.MinMaxScaler().fit_transform(x),
    "Normalizer": lambda x, y: preprocessing.Normalizer().fit_transform(x),
    "PolynomialFeatures": lambda x, y: preprocessing.PolynomialFeatures().fit_transform(x),
    "PCA": lambda x, y: decomposition.PCA(2, svd_solver="full").fit(x).explained_variance_,
    "PCA by covariance": lambda x, y: abs(decomposition.PCA(2, svd_solver="covariance_eigh").fit_transform(x)),
    "LDA": lambda x, y: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y).decision_function(x),
    "Ridge": lambda x, y: linear_model.Ridge(solver="svd").fit(x, x[:, 0] * x[:, 1]).predict(x),
    "GaussianNB": lambda x, y: naive_bayes.GaussianNB().fit(x, y).predict_proba(x),
    "euclidean_distances": lambda x, y: pairwise.euclidean_distances(x[:4, :], x[4:, :]),
    "rbf_kernel": lambda x, y: pairwise.rbf_kernel(x),
    "cosine_similarity": lambda x, y: pairwise.cosine_similarity(x),
    "manhattan_distances": lambda x, y: pairwise.manhattan_distances(x[:4, :], x[4:, :]),
}
CONSTANT: dict[str, Call] = {
    "StandardScaler": lambda x, y: preprocessing.StandardScaler().fit_transform(x),
    "LogisticRegression": lambda x, y: linear_model.LogisticRegression().fit(x, y).predict(x),
    "LabelBinarizer": lambda x, y: preprocessing.LabelBinarizer().fit_transform(y),
    "accuracy_score": lambda x, y: metrics.accuracy_score(y, 1 - y),
    "f1_score": lambda x, y: metrics.f1_score(y, y),
    "roc_auc_score": lambda x, y: metrics.roc_auc_score(y, x[:, 0]),
    "r2_score": lambda x, y: metrics.r2_score(x[:, 0], x[:, 1]),
    "log_loss": lambda x, y: metrics.log_loss(y, special.expit(x[:, 0])),
    "stats.rankdata": lambda x, y: stats.rankdata(x, axis=0),
    "fft.dct": lambda x, y: fft.dct(x),
}
"""Calls whose results are numbers or indices, or that SciPy passes to NumPy."""


def sums_of_rows(x: Any) -> Any:
    return special.logsumexp(x, axis=1).detach()


LEVELS: dict[str, tuple[Call, Call]] = {
    "grad": (
        lambda x, y: func.grad(lambda x: special.logsumexp(x))(x),
        lambda x, y: special.softmax(x),
    ),
    "hessian": (
        lambda x, y: func.hessian(lambda x: special.logsumexp(x))(x[0, :]),
        lambda x, y: np.diag(special.softmax(x[0])) - np.outer(special.softmax(x[0]), special.softmax(x[0])),
    ),
    "vmap": (
        lambda x, y: func.vmap(lambda x: special.logsumexp(x) + special.softmax(x)[0])(x),
        lambda x, y: special.logsumexp(x, axis=1) + special.softmax(x, axis=1)[:, 0],
    ),
    "compiled": (
        lambda x, y: compiled(sums_of_rows)(x),
        lambda x, y: special.logsumexp(x, axis=1),
    ),
}
"""Calls within derivatives and other functions of functions, and the same values by NumPy."""


def check(call: Call, differentiable: bool = False, by_numpy: Call | None = None) -> None:
    generator = np.random.default_rng(4)
    values, direction = generator.normal(size=(2, 8, 3))
    labels = np.arange(8) % 2
    x: Any = Tensor[Autodiff[NumPy]].from_data(values).require_grad()
    out: Any = call(x, IntTensor[Autodiff[NumPy]].from_data(labels))
    expected = np.asarray((by_numpy or call)(values, labels))
    np.testing.assert_allclose(np.asarray(out), expected, 1e-7, 1e-9)
    np.testing.assert_array_equal(np.asarray(x), values, "the argument has changed")
    if differentiable:
        assert out.__class__ is Tensor
        weight = generator.normal(size=expected.shape)
        slope = np.sum(np.asarray((out * Tensor[Autodiff[NumPy]].from_data(weight)).sum().backward()[x]) * direction)
        ahead, behind = (np.asarray(call(values + step * direction, labels)) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(slope, np.sum(weight * (ahead - behind)) / 2e-6, 1e-5, 1e-7)


if __name__ == "__main__":
    cast("Any", import_module("sklearn")).set_config(array_api_dispatch=True)
    warnings.simplefilter("ignore")
    exec(PAGE_PROGRAM, {})
    rows: dict[str, tuple[Any, ...]] = {name: (call, True) for name, call in DIFFERENTIABLE.items()}
    rows |= {name: (call,) for name, call in CONSTANT.items()}
    rows |= {name: (call, False, by_numpy) for name, (call, by_numpy) in LEVELS.items()}
    for name, row in rows.items():
        try:
            check(*row)
        except Exception:
            print(f"{name}: {traceback.format_exc(limit=-3)}")
