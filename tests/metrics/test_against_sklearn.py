"""Every metric equals scikit-learn's, whole and as the sum over uneven batches, weighted and not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.metrics import (
    AUROC,
    F1,
    MAE,
    MSE,
    R2,
    Accuracy,
    AveragePrecision,
    ConfusionMatrix,
    Dice,
    FBeta,
    IoU,
    Mean,
    Perplexity,
    Precision,
    Recall,
)
from tests.rows import every_row

pytestmark = pytest.mark.slow


class Sklearn:
    """`sklearn.metrics`, imported at the first call: each process collects this file, and the import takes a second."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: getattr(import_module("sklearn.metrics"), name)(*args, **kwargs)


sk = Sklearn()
N, C = 57, 4
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(N, C)).round(1)  # rounded, so that scores tie
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
Y = RNG.integers(0, C, N)
GUESS = LOGITS.argmax(1)
YES = RNG.integers(0, 2, N).astype(bool)
LABELS = RNG.integers(0, 2, (N, C)).astype(bool)
WEIGHT = RNG.uniform(0.1, 3.0, N)
X, TRUTH = RNG.normal(size=(N, 3)), RNG.normal(size=(N, 3)) + 1e4
BATCHES = ((0, 1), (1, 20), (20, 20), (20, 57))

multi = {"labels": range(C), "zero_division": 0}
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...], Callable[[Any], Any]]] = {
    "accuracy": (Accuracy.of, (LOGITS, Y), lambda w: sk.accuracy_score(Y, GUESS, sample_weight=w)),
    "accuracy of classes": (Accuracy.of, (GUESS, Y), lambda w: sk.accuracy_score(Y, GUESS, sample_weight=w)),
    "accuracy of a label": (
        Accuracy.of,
        (LOGITS[:, 0], YES),
        lambda w: sk.accuracy_score(YES, LOGITS[:, 0] > 0, sample_weight=w),
    ),
    "accuracy of labels": (
        Accuracy.of,
        (LOGITS, LABELS),
        lambda w: np.average(((LOGITS > 0) == LABELS).mean(1), weights=w),
    ),
    "top 2": (
        lambda x, y, weight=None: Accuracy.of(x, y, k=2, weight=weight),
        (RNG.permuted(np.arange(N * C).reshape(N, C), axis=1).astype(float), Y),
        lambda w: sk.top_k_accuracy_score(Y, CASES["top 2"][1][0], k=2, sample_weight=w),
    ),
    "auroc": (AUROC.of, (LOGITS[:, 0], YES), lambda w: sk.roc_auc_score(YES, LOGITS[:, 0], sample_weight=w)),
    "auroc of classes": (
        AUROC.of,
        (PROBABILITIES, Y),
        lambda w: sk.roc_auc_score(Y, PROBABILITIES, multi_class="ovr", sample_weight=w),
    ),
    "auroc, weighted": (
        lambda x, y, weight=None: AUROC.of(x, y, average="weighted", weight=weight),
        (LOGITS, LABELS),
        lambda w: sk.roc_auc_score(LABELS, LOGITS, average="weighted", sample_weight=w),
    ),
    "average precision": (
        AveragePrecision.of,
        (LOGITS, LABELS),
        lambda w: sk.average_precision_score(LABELS, LOGITS, sample_weight=w),
    ),
    "confusion matrix": (ConfusionMatrix.of, (LOGITS, Y), lambda w: sk.confusion_matrix(Y, GUESS, sample_weight=w)),
    "confusion matrix of a label": (
        ConfusionMatrix.of,
        (LOGITS[:, 0], YES),
        lambda w: sk.confusion_matrix(YES, LOGITS[:, 0] > 0, sample_weight=w),
    ),
    "mse": (MSE.of, (X, TRUTH), lambda w: sk.mean_squared_error(TRUTH, X, sample_weight=w)),
    "mae": (MAE.of, (X, TRUTH), lambda w: sk.mean_absolute_error(TRUTH, X, sample_weight=w)),
    "r2": (R2.of, (X + 1e4, TRUTH), lambda w: sk.r2_score(TRUTH, X + 1e4, sample_weight=w)),
    "r2 of one output": (R2.of, (X[:, 0], TRUTH[:, 0]), lambda w: sk.r2_score(TRUTH[:, 0], X[:, 0], sample_weight=w)),
    "mean": (lambda x, weight=1.0: Mean.of(x, weight), (X[:, 0],), lambda w: np.average(X[:, 0], weights=w)),
    "perplexity": (
        Perplexity.of,
        (LOGITS, Y),
        lambda w: np.exp(sk.log_loss(Y, PROBABILITIES, sample_weight=w)),
    ),
}
for average in ("macro", "micro", "weighted"):
    for kind, metric, theirs in (
        ("precision", Precision, sk.precision_score),
        ("recall", Recall, sk.recall_score),
        ("f1", F1, sk.f1_score),
        ("iou", IoU, sk.jaccard_score),
        ("dice", Dice, sk.f1_score),
        ("f2", FBeta, lambda *a, **k: sk.fbeta_score(*a, beta=2, **k)),
    ):
        more = {"beta": 2.0} if kind == "f2" else {}

        def ours(x: Any, y: Any, weight: Any = None, m: Any = metric, a: str = average, more: Any = more) -> Any:
            return m.of(x, y, average=a, weight=weight, **more)

        CASES[f"{kind}, {average}"] = (
            ours,
            (LOGITS, Y),
            lambda w, f=theirs, a=average: f(  # type: ignore[misc]  # lambdas with defaults are not inferred
                Y, GUESS, average=a, sample_weight=w, **multi
            ),
        )
        CASES[f"{kind} of labels, {average}"] = (
            ours,
            (LOGITS, LABELS),
            lambda w, f=theirs, a=average: f(  # type: ignore[misc]  # lambdas with defaults are not inferred
                LABELS, LOGITS > 0, average=a, sample_weight=w, zero_division=0
            ),
        )


def tensor(x: np.ndarray[Any, Any]) -> Any:
    kinds: dict[str, Any] = {"f": Tensor[NumPy], "i": IntTensor[NumPy], "b": BoolTensor[NumPy]}
    return kinds[x.dtype.kind].from_data(x)


@pytest.mark.slowest
@every_row("weighted", [False, True])
@every_row("name", CASES)
def test_equals_sklearn_whole_and_in_batches(name: str, weighted: bool) -> None:
    of, arguments, theirs = CASES[name]
    more: dict[str, Any] = {"weight": WEIGHT} if weighted else {}
    expected = theirs(WEIGHT if weighted else None)
    parts = [
        of(*[tensor(x[a:b]) for x in arguments], **{k: tensor(w[a:b]) for k, w in more.items()}) for a, b in BATCHES
    ]
    whole = of(*map(tensor, arguments), **{k: tensor(w) for k, w in more.items()})
    np.testing.assert_allclose(whole.value(), expected, rtol=1e-9)
    np.testing.assert_allclose(sum(parts).value(), expected, rtol=1e-9)
    np.testing.assert_allclose((parts[3] + (parts[1] + parts[0])).value(), expected, rtol=1e-9)


@every_row("normalize", ["true", "pred", "all", None])
def test_confusion_matrix_normalized(normalize: Any) -> None:
    ours = ConfusionMatrix.of(tensor(LOGITS), tensor(Y)).value(normalize=normalize)
    np.testing.assert_allclose(ours, sk.confusion_matrix(Y, GUESS, normalize=normalize), rtol=1e-12)


def test_absent_classes_are_left_out_of_the_macro_average_as_in_sklearn() -> None:
    y, guess = np.array([0, 0, 2, 2]), np.array([0, 2, 2, 2])
    for metric, theirs in ((Precision, sk.precision_score), (Recall, sk.recall_score), (F1, sk.f1_score)):
        ours = metric.of(tensor(guess), tensor(y), classes=7).value()
        assert ours == pytest.approx(theirs(y, guess, average="macro"), rel=1e-12)


def test_tracked_scores_leave_no_graph_in_the_metric() -> None:
    logits = Tensor[Autodiff[NumPy]].from_data(LOGITS).require_grad()
    y = IntTensor[Autodiff[NumPy]].from_data(Y)
    accuracy = Accuracy.of(logits * 2.0, y)
    assert accuracy.correct.device is NumPy.device()
    assert accuracy.value() == sk.accuracy_score(Y, GUESS)
    assert MSE.of(logits, logits).sum.device is NumPy.device()


def test_images_of_classes_and_ignored_elements() -> None:
    logits, y = RNG.normal(size=(2, C, 3, 5)), RNG.integers(0, C, (2, 3, 5))
    y[0, 0] = 255
    counted, guess = y != 255, logits.argmax(1)
    for metric, theirs in ((Precision, sk.precision_score), (IoU, sk.jaccard_score)):
        ours = metric.of(tensor(logits), tensor(y), ignore_index=255).value()
        assert ours == pytest.approx(theirs(y[counted], guess[counted], average="macro"), rel=1e-12)
    assert Accuracy.of(tensor(logits), tensor(y), ignore_index=255).value() == (y == guess)[counted].mean()
    assert Accuracy.of(tensor(logits), tensor(y), ignore_index=255, k=C).value() == 1.0
    matrix = ConfusionMatrix.of(tensor(logits), tensor(y), ignore_index=255).value()
    np.testing.assert_array_equal(matrix, sk.confusion_matrix(y[counted], guess[counted], labels=range(C)))
    nll = -np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    picked = np.take_along_axis(nll, np.where(counted, y, 0)[:, None], 1)[:, 0][counted]
    ours = Perplexity.of(tensor(logits), tensor(y), ignore_index=255).value()
    assert ours == pytest.approx(np.exp(picked.mean()), rel=1e-9)
