"""`Classifier` and `Regressor` are estimators of scikit-learn, trained by a learner."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, train
from burnpy.backend import NumPy
from burnpy.nn import Linear
from burnpy.optim import LinearLr, Sgd
from burnpy.tensor.generator import default_generator
from burnpy.train import BatchEnd, EarlyStopping
from tests.rows import every_row

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5]
NAMES = np.where(Y > 0.5, "high", np.where(Y < -0.5, "low", "middle"))
MODEL: Any = Linear(3, 1, device=Autodiff[NumPy])


def small(n_features: int, n_outputs: int, *, device: Any, hidden: tuple[int, ...] = (8,)) -> Any:
    """Make `train.mlp`, which imports scikit-learn, in small."""
    return train.mlp(n_features, n_outputs, device=device, hidden=hidden)


@pytest.mark.slowest
@pytest.mark.parametrize("estimator", ["Classifier", "Regressor"])
def test_scikit_learns_own_checks_pass(estimator: str) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(getattr(train, estimator)(lr=0.02, epochs=12), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    needs_pandas = {
        "check_sample_weights_pandas_series",
        "check_classifier_data_not_an_array",
        "check_regressor_data_not_an_array",
    }
    assert skipped <= needs_pandas | {"check_array_api_input"}  # the last needs SCIPY_ARRAY_API=1


@pytest.mark.long
@pytest.mark.parametrize("estimator", ["Classifier", "Regressor"])
def test_scikit_learns_own_checks_pass_with_the_defaults(estimator: str) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(getattr(train, estimator)(), on_skip=None)


@pytest.mark.slow
@every_row("labels", [NAMES, Y > 0, np.where(Y > 0, 7, -3), np.where(Y > 0, "a", "b").astype(object)])
def test_labels_are_of_any_type(labels: Any) -> None:
    classifier = train.Classifier(small, lr=0.05, random_state=0).fit(X, labels)
    assert classifier.classes_.tolist() == sorted(set(labels.tolist()))
    assert set(classifier.predict(X)) <= set(labels.tolist())
    assert classifier.score(X, labels) > 0.8
    np.testing.assert_allclose(classifier.predict_proba(X).sum(1), 1.0)
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(X)), classifier.predict_proba(X))


@pytest.mark.slow
@every_row(
    "y, shape", [(Y, (60,)), (Y[:, None], (60, 1)), (np.stack([Y, -Y], 1), (60, 2)), (Y.round().astype(int), (60,))]
)
def test_targets_keep_their_shape(y: Any, shape: tuple[int, ...]) -> None:
    regressor = train.Regressor(small, lr=0.03, random_state=0).fit(X, y)
    assert regressor.predict(X).shape == shape
    assert regressor.score(X, y) > 0.8


@pytest.mark.slow
def test_a_seed_determines_a_fit_and_leaves_other_random_numbers_as_they_are() -> None:
    before = default_generator(NumPy).get_state()
    first, again, other = (train.Regressor(small, epochs=2, random_state=k).fit(X, Y).predict(X) for k in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert default_generator(NumPy).get_state() == before


@pytest.mark.slow
def test_estimators_work_in_pipelines_and_searches() -> None:
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), train.Classifier(small, epochs=10, random_state=0))
    sizes = [partial(small, hidden=(4,)), partial(small, hidden=())]
    search = GridSearchCV(pipeline, {"classifier__model": sizes, "classifier__lr": [0.001, 0.1]}, cv=2).fit(X, NAMES)
    assert search.best_params_["classifier__lr"] == 0.1
    assert cross_val_score(search.best_estimator_, X, NAMES, cv=2).shape == (2,)


@pytest.mark.slow
def test_estimators_work_in_estimators() -> None:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
    from sklearn.multioutput import RegressorChain
    from sklearn.preprocessing import StandardScaler

    classifier, regressor = (
        train.Classifier(small, epochs=3, random_state=0),
        train.Regressor(small, epochs=3, random_state=0),
    )
    for estimator in (
        VotingClassifier([("a", classifier), ("b", DummyClassifier())], voting="soft"),
        StackingClassifier([("a", classifier)], cv=2),
        BaggingClassifier(classifier, n_estimators=2),
        CalibratedClassifierCV(classifier, cv=2),
    ):
        assert estimator.fit(X, NAMES).predict_proba(X).shape == (60, 3)
    assert TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(X, Y).predict(X).shape == (60,)
    assert RegressorChain(regressor).fit(X, np.stack([Y, -Y], 1)).predict(X).shape == (60, 2)


def test_estimators_are_cloned_and_pickled_before_and_after_a_fit() -> None:
    from sklearn.base import clone

    regressor = train.Regressor(small, optim=Sgd(momentum=0.9), device=Autodiff[NumPy], epochs=3, random_state=0)
    assert pickle.loads(pickle.dumps(regressor)).get_params().keys() == regressor.get_params().keys()
    expected = clone(regressor).fit(X, Y).predict(X)
    copied = pickle.loads(pickle.dumps(regressor.fit(X, Y)))
    assert (copied.predict(X) == expected).all()
    assert (copied.partial_fit(X, Y).predict(X) == regressor.partial_fit(X, Y).predict(X)).all()


@pytest.mark.slow
def test_fits_continue_one_another() -> None:
    rates = LinearLr(0.1, 0.0, 4)
    warm = train.Regressor(small, lr=rates, epochs=2, warm_start=True, random_state=0).fit(X, Y).fit(X, Y)
    np.testing.assert_allclose([values["lr"] for values in warm.history_], [0.1, 0.075, 0.05, 0.025])
    online = train.Classifier(small, lr=0.03, random_state=0)
    for _ in range(60):
        online.partial_fit(X, NAMES, classes=["high", "low", "middle", "none"])
    assert online.predict_proba(X).shape == (60, 4)
    assert online.score(X, NAMES) > 0.8


def test_samples_are_held_out_for_callbacks() -> None:
    classifier = train.Classifier(
        small, lr=0.0, validation_fraction=0.25, callbacks=[EarlyStopping("valid/accuracy", patience=2)]
    ).fit(X, NAMES)
    assert len(classifier.history_) == 3
    assert {"train/loss", "train/accuracy", "valid/loss", "valid/accuracy"} <= classifier.history_[0].keys()


def test_models_have_the_dtype_of_the_samples_or_the_chosen_one() -> None:
    for dtype, given, expected in [(None, "f4", "f4"), (None, "f8", "f8"), (None, "i8", "f8"), ("float32", "f8", "f4")]:
        regressor = train.Regressor(small, epochs=1, dtype=dtype).fit((10 * X).astype(given), Y)
        assert regressor.predict(X).dtype == expected


def test_steps_can_be_compiled() -> None:
    plain, compiled = (
        train.Classifier(small, epochs=3, compiled=on, random_state=0).fit(X, NAMES, np.arange(60.0))
        for on in (False, True)
    )
    np.testing.assert_allclose(plain.predict_proba(X), compiled.predict_proba(X), rtol=1e-9)


def test_ctrl_c_ends_a_search_and_not_one_fit() -> None:
    def press(event: Any) -> None:
        if isinstance(event, BatchEnd):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train.Regressor(small, callbacks=[press]).fit(X, Y)


@pytest.mark.heavy("pandas", "polars")
def test_frames_are_samples_whose_columns_have_names() -> None:
    import pandas as pd
    import polars as pl

    for make in (pd.DataFrame, pl.DataFrame):
        frame = make({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
        regressor = train.Regressor(small, epochs=2, random_state=0).fit(frame, make({"y": Y})["y"])
        assert regressor.feature_names_in_.tolist() == ["a", "b", "c"]
        with pytest.raises(ValueError, match="feature names should match"):
            regressor.predict(frame[["b", "a", "c"]])


def wrong_size(n_features: int, n_outputs: int, device: Any) -> Any:
    return Linear(n_features, 5, device=device)


def fit_sparse() -> None:
    import scipy.sparse

    train.Regressor().fit(scipy.sparse.csr_array(X), Y)


def mean_loss(outputs: Any, targets: Any) -> Tensor[Any]:
    return (outputs - targets).abs().mean()  # type: ignore[no-any-return]


@every_row(
    "call, message",
    [
        (fit_sparse, "dense data is required. Use '.toarray()'"),
        (lambda: train.Regressor().fit(X, Y[:9]), "inconsistent numbers of samples: [60, 9]"),
        (lambda: train.Regressor().fit(X[0], Y), "Expected 2D array, got 1D array instead"),
        (lambda: train.Regressor().fit(X * np.nan, Y), "contains NaN"),
        (lambda: train.Regressor().fit(X, NAMES), "could not convert string to float"),
        (lambda: train.Regressor().predict(X), "This Regressor instance is not fitted yet"),
        (
            lambda: train.Regressor(epochs=1).fit(X, Y).predict(X[:, :2]),
            "X has 2 features, but Regressor is expecting 3",
        ),
        (lambda: train.Classifier().fit(X, Y), "Unknown label type: continuous"),
        (lambda: train.Classifier().fit(X, NAMES == ""), "the data contains only one class: False"),
        (lambda: train.Classifier().partial_fit(X, NAMES), "classes must be passed on the first call to partial_fit"),
        (lambda: train.Classifier().partial_fit(X, NAMES, ["low", "high"]), "`y` has classes not in `self.classes_`"),
        (lambda: train.Regressor().fit(X, Y, np.zeros(60)), "Sample weights must contain at least one non-zero"),
        (lambda: train.Regressor().fit(X, Y, -np.ones(60)), "Negative values in data passed to `sample_weight`"),
        (lambda: train.Regressor(MODEL).fit(X, Y), "model= takes a function or a class"),
        (
            lambda: train.Regressor(lambda n, k, device: n).fit(X, Y),
            "model= returned an int; expected a burnpy.nn.Module",
        ),
        (
            lambda: train.Classifier(wrong_size).fit(X, NAMES),
            "model= returned shape (60, 5); expected (60, 3), an output for each class",
        ),
        (
            lambda: train.Regressor(loss=mean_loss).fit(X, Y),
            "loss= returned shape (); expected a loss for each of 60 samples",
        ),
        (
            lambda: train.Regressor(device=NumPy).fit(X, Y),
            "device=NumPy records no graph; write device=Autodiff[NumPy]",
        ),
        (lambda: train.Regressor(dtype="int32").fit(X, Y), "dtype='int32'; expected 'float32', 'float64', or None"),
        (
            lambda: train.Regressor(validation_fraction=2).fit(X, Y),
            "validation_fraction=2; expected a number from 0",
        ),
        (
            lambda: train.Regressor(validation_fraction=0.001).fit(X, Y),
            "leaves 60 samples for training and 0 for validation",
        ),
        (
            lambda: train.Regressor(epochs=1, warm_start=True).fit(X, Y).fit(X, np.stack([Y, Y], 1)),
            "y has 2 targets, but",
        ),
    ],
)
def test_a_mistake_is_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.slowest
def test_scikit_learn_is_needed_for_estimators_alone() -> None:
    program = """
import sys, burnpy.train
assert not any(name.startswith("sklearn") for name in sys.modules)
sys.modules["sklearn.base"] = None
try:
    burnpy.train.Classifier
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'pip install "burnpy[sklearn]"' in done.stdout
