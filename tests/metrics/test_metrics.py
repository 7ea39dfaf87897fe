"""How metrics add, what they say of wrong arguments, and what they are of nothing."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any, Self

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, CallError, IndexRangeError, KindError, RecordError, ShapeError
from burnpy.metrics import (
    AUROC,
    F1,
    MAE,
    MSE,
    R2,
    Accuracy,
    AveragePrecision,
    ConfusionMatrix,
    FBeta,
    Mean,
    Metric,
    Perplexity,
    Precision,
    total,
)


def floats(*values: Any) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(np.array(values, dtype=np.float64))


def ints(*values: Any) -> IntTensor[NumPy]:
    return IntTensor[NumPy].from_data(np.array(values, dtype=np.int64))


def bools(*values: Any) -> BoolTensor[NumPy]:
    return BoolTensor[NumPy].from_data(np.array(values, dtype=bool))


class Within(Metric):
    """The example of the documentation."""

    near: Tensor[Any]
    count: Tensor[Any]

    @classmethod
    def of(cls, prediction: Tensor[Any], target: Tensor[Any], tolerance: float = 0.1) -> Self:
        near = (prediction - target).abs() <= tolerance
        return cls(near=total(near), count=total(near.ones_like()))

    def value(self) -> float:
        return (self.near / self.count).item()


def test_a_metric_of_ones_own() -> None:
    x = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 3.0]).require_grad()
    y = Tensor[Autodiff[NumPy]].from_data([1.05, 2.5, 3.0])
    assert (Within.of(x, y) + Within.of(x[:1], y[:1])).value() == 0.75
    assert repr(Within.of(x[:1], y[:1])) == "Within(1)"


def test_metrics_are_immutable_and_adding_changes_nothing() -> None:
    a, b = Mean.of(floats(1.0)), Mean.of(floats(3.0))
    assert (a + b).value() == 2.0
    assert (a.value(), b.value()) == (1.0, 3.0)
    with pytest.raises(AttributeError):
        a.sum = b.sum  # type: ignore[misc]  # what is tried


def test_metrics_are_copied_and_pickled() -> None:
    metrics: tuple[Any, ...] = (Mean.of(floats(1.0, 2.0)), AUROC.of(floats(0.2, 0.8), bools(False, True)))
    for metric in metrics:
        for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
            assert twin.value() == metric.value()
            assert (twin + metric).value() == metric.value()


def test_only_equal_metrics_are_added() -> None:
    logits, y = floats([1.0, 2.0], [3.0, 4.0]), ints(0, 1)
    with pytest.raises(KindError, match="an Accuracy can be added to an Accuracy only, and was added to a Mean"):
        Accuracy.of(logits, y) + Mean.of(logits)  # type: ignore[operator]  # what is tried
    with pytest.raises(KindError, match="was added to a float"):
        Mean.of(logits) + 1.0  # type: ignore[operator]  # what is tried
    with pytest.raises(KindError, match="was added to an int"):
        sum([Mean.of(logits)], 5)
    with pytest.raises(ArgumentError, match=r"FBeta with beta=2.0 was added to FBeta with beta=0.5"):
        FBeta.of(logits, y, beta=2.0) + FBeta.of(logits, y, beta=0.5)
    with pytest.raises(ArgumentError, match="k=1 was added to Accuracy with k=2"):
        Accuracy.of(logits, y) + Accuracy.of(logits, y, k=2)
    three = Precision.of(ints(0, 1), y, classes=3)
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\), as for different numbers of classes"):
        Precision.of(logits, y) + three
    with pytest.raises(ArgumentError, match="of 2 classes was added to one of 1"):
        AUROC.of(logits, y) + AUROC.of(floats(1.0), bools(True))


def test_errors_of_a_metric_of_ones_own_are_its_own() -> None:
    class Refusing(Metric):
        seen: int

        def __post_init__(self) -> None:
            raise TypeError("refused")

        def value(self) -> float:
            return 0.0

    with pytest.raises(TypeError, match=r"^refused$"):
        Refusing(seen=1)


def test_wrong_arguments_are_explained() -> None:
    logits, y = floats([1.0, 2.0], [3.0, 4.0]), ints(0, 1)
    with pytest.raises(CallError, match=r"Accuracy\.of\(\.\.\.\) computes them"):
        Accuracy()  # type: ignore[call-arg]  # an error for the checkers as well
    with pytest.raises(
        ShapeError, match=r"Accuracy.of\(\) got predictions with shape \(2, 2\) and targets with shape \(3,\)"
    ):
        Accuracy.of(logits, ints(0, 1, 1))
    with pytest.raises(IndexRangeError):
        Accuracy.of(logits, ints(0, 2))
    with pytest.raises(IndexRangeError):
        Precision.of(floats(0.5, 1.0), ints(0, 2))
    with pytest.raises(KindError, match="takes targets as an IntTensor or a BoolTensor"):
        Accuracy.of(logits, floats(0.0, 1.0))  # type: ignore[arg-type]  # what is tried
    with pytest.raises(KindError, match="takes tensors, got"):
        Accuracy.of(logits.to_numpy(), y)  # type: ignore[arg-type]  # what is tried
    with pytest.raises(KindError, match="a metric takes tensors"):
        Mean.of(3.0)  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ArgumentError, match="needs their number"):
        Precision.of(ints(0, 1), y)
    with pytest.raises(ArgumentError, match='"macro", "micro" or "weighted"'):
        Precision.of(logits, y, average="binary")  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ArgumentError, match="k=0; expected 1 or more"):
        Accuracy.of(logits, y, k=0)
    with pytest.raises(KindError, match=r"takes scores with shape \(N, C, ...\)"):
        Accuracy.of(ints(0, 1), y, k=2)
    with pytest.raises(ArgumentError, match="beta=-1"):
        FBeta.of(logits, y, beta=-1)
    with pytest.raises(ArgumentError, match="weight=-1"):
        Mean.of(logits, -1)
    with pytest.raises(ShapeError, match=r"weights (of|with) shape \(3,\)"):
        Accuracy.of(logits, y, weight=floats(1, 2, 3))
    with pytest.raises(ArgumentError, match="ignore_index=0 for labels"):
        F1.of(floats(1.0), bools(True), ignore_index=0)
    with pytest.raises(ShapeError, match="make one for each label"):
        ConfusionMatrix.of(logits, bools([True, False], [True, True]))
    with pytest.raises(ArgumentError, match="normalize='rows'"):
        ConfusionMatrix.of(logits, y).value(normalize="rows")  # type: ignore[arg-type]  # what is tried
    with pytest.raises(ShapeError, match="they must be equal"):
        MSE.of(floats(1.0, 2.0), floats(1.0))
    with pytest.raises(ArgumentError, match="1 NaN among its scores"):
        AUROC.of(floats(math.nan, 1.0), bools(True, False)).value()
    with pytest.raises(KindError, match="got a Tensor"):
        AUROC.of(floats(1.0), floats(1.0))  # type: ignore[arg-type]  # what is tried


def test_metrics_of_nothing_are_nan() -> None:
    none, no_class = floats().reshape((0, 3)), ints()
    for metric in (
        Accuracy.of(none, no_class),
        Accuracy.of(none, no_class, k=2),
        Precision.of(none, no_class),
        Perplexity.of(none, no_class),
        Mean.of(floats()),
        MSE.of(floats(), floats()),
        MAE.of(floats(), floats()),
        R2.of(floats(), floats()),
        AUROC.of(floats(), bools()),
        AveragePrecision.of(floats(), bools()),
    ):
        assert math.isnan(metric.value()), metric
    assert (R2.of(floats(), floats()) + R2.of(floats(1.0, 2.0), floats(1.0, 2.0))).value() == 1.0


def test_what_has_no_weight_may_be_anything() -> None:
    weight, nan = floats(1.0, 0.0, 2.0, 0.0), math.nan
    x, y = floats(1.0, nan, 2.5, math.inf), floats(1.5, 1.0, 2.0, nan)
    kept, x2, y2 = floats(1.0, 2.0), floats(1.0, 2.5), floats(1.5, 2.0)
    for metric in (MSE, MAE, R2):
        assert metric.of(x, y, weight=weight).value() == metric.of(x2, y2, weight=kept).value()
    assert Mean.of(x, weight).value() == 2.0
    for ranking in (AUROC, AveragePrecision):
        assert ranking.of(x, bools(True, True, False, False), weight=weight).value() in (0.0, 1 / 3)
    logits = floats([0.0, 0.0], [nan, 0.0], [0.0, 0.0], [0.0, -math.inf])
    assert Perplexity.of(logits, ints(0, 0, 1, 1), weight=weight).value() == pytest.approx(2.0)


def test_constant_targets_of_r2() -> None:
    assert R2.of(floats(2.0, 2.0), floats(2.0, 2.0)).value() == 1.0
    assert R2.of(floats(2.0, 3.0), floats(2.0, 2.0)).value() == 0.0


def test_undefined_rankings_are_nan_or_left_out() -> None:
    assert math.isnan(AUROC.of(floats(0.1, 0.2), bools(True, True)).value())
    scores = floats([0.1, 0.9, 0.0], [0.8, 0.2, 0.0])
    ranking = AUROC.of(scores, ints(1, 0))
    assert ranking.value() == 1.0
    assert math.isnan(ranking.per_class()[2])


def test_top_k_breaks_ties_as_argmax_and_never_counts_nan_as_right() -> None:
    tied = floats([1.0, 1.0, 1.0])
    assert [Accuracy.of(tied, ints(c), k=2).value() for c in range(3)] == [1.0, 1.0, 0.0]
    unknown = floats([math.nan, 1.0, 2.0])
    assert [Accuracy.of(unknown, ints(c), k=2).value() for c in range(3)] == [0.0, 0.0, 1.0]


def test_sums_are_exact_in_float64_for_small_floats() -> None:
    x = Tensor[NumPy].full((70_000,), 1.0, dtype="float16")
    assert Mean.of(x).weight.item() == 70_000
    assert MSE.of(x, x.zeros_like()).sum.item() == 70_000
    assert Perplexity.of(floats([1e4, 0.0]), ints(1)).value() == math.inf


def test_the_records_of_others_are_refused() -> None:
    own = Mean.of(Tensor[NumPy].from_data([1.0, 2.0])).into_record()
    for fields, said in (
        ({}, r"the record of a Mean has the fields \(none\); expected sum, weight"),
        ({"sum": None, "weight": None}, "the record of a Mean has sum=None; expected a tensor"),
        ({"sum": "3", "weight": 1}, "the record of a Mean has sum='3'; expected a tensor"),
    ):
        with pytest.raises(RecordError, match=said):
            Metric.from_record({**own, "fields": fields}, NumPy)
