"""Judges whether a transformation agrees: relative to the effect of rounding errors, and away from kinks and jumps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import dtype_of, epsilon, float32, largest, tiny
from burnpy.backend.errors import BurnpyError
from burnpy.testing.differential.samples import Arrays, Case, Sample, Unsuitable
from burnpy.testing.differential.transformations import STEP, Transformation, differences
from burnpy.testing.rounding import Rounding, rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIALS = 4
"""The number of computations with random rounding errors that estimate a condition."""
TIMES = 24.0
"""How many times larger a difference may be than the effect of such errors."""


def compare(case: Case, t: Transformation) -> str | None:
    """Return what is wrong with a transformation of a case; None if nothing is.

    Raises:
        Unsuitable: they cannot be compared.
        BurnpyError: the transformation refuses the case.
    """
    traits = case.traits
    if (traits.draws and not t.draws) or (traits.by_value and t.batch):
        raise Unsuitable("draws")
    if not case.float_results and t.quantity != "values":
        raise Unsuitable("no floats")
    if t.of:
        return _against_differences(case, t)
    try:
        expected = _expected(case, t)
    except BurnpyError:
        raise Unsuitable("other examples have invalid values") from None
    try:
        found = t.way(case, t.quantity)
    except (BurnpyError, Unsuitable):
        raise
    except AssertionError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape or (a.dtype != b.dtype and t.dtype == "float64" and not t.mode):
            return f"result {k}: shape {a.shape} and dtype {a.dtype}, expected {b.shape} and {b.dtype}"
    if t.dtype == "float64" and all(close(a, b) for a, b in zip(found, expected, strict=True)):
        return None
    return _judged(case, t, found, expected)


def close(a: NDArray[Any], b: NDArray[Any], rtol: float = 1e-9) -> bool:
    """Return whether arrays agree to nearly all digits, relative to the largest element."""
    if a.dtype.kind not in "fV":
        return bool((a == b).all())
    finite = np.isfinite(b)
    scale = float(abs(b[finite]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (finite & (abs(a - b) <= rtol * abs(b) + rtol * 1e-3 * scale))
    return bool(good.all())


def _judged(case: Case, t: Transformation, found: Arrays, expected: Arrays) -> str | None:
    """Compare with the effect of rounding errors, estimated by random ones of the dtype's size in float64. A few trials
    show it where it is smooth. Where a difference is larger, many do, as at a jump that some errors cross."""
    narrow = t.dtype != "float64"
    eps = max(epsilon(dtype_of(t.dtype)), epsilon(float32) if case.traits.narrow else 0.0)
    if narrow:
        expected = _with_errors(case, t, Rounding(t.dtype, 0.0))
    trials: list[Arrays] = []
    wrong = None
    for count in (TRIALS, 4 * TRIALS):
        while len(trials) < count:
            trials.append(_with_errors(case, t, Rounding(t.dtype, eps if narrow else 8 * eps, len(trials))))
        wrong = _beyond(case, t, eps, found, expected, trials, [])
        if wrong is None:
            break
    if wrong is not None and narrow:
        wrong = _beyond(case, t, eps, found, expected, trials, _moved(case, t, eps))
    if wrong is None and narrow and t.quantity == "gradient":
        return _unbalanced(case, eps, found, expected, trials)
    return wrong


def _unbalanced(case: Case, eps: float, found: Arrays, expected: Arrays, trials: Sequence[Arrays]) -> str | None:
    """Compare the sums of the gradients of an argument with which all results move, such as `logsumexp`. Their elements
    are weights: rounding errors of large arguments change each of them, but not their sum."""
    moved = sum(float(w.sum()) for w in case.weights)
    for k, b in enumerate(expected):
        total, sums = float(b.sum()), [float(x[k].sum()) for x in (found, *trials)]
        size = float(np.abs(b).sum())
        if not np.isfinite([size, *sums]).all() or not abs(total - moved) <= 1e-6 * size <= 2e-6 * moved:
            continue
        spread = max(abs(x - total) for x in sums[1:])
        if spread < 1e-3 * size and abs(sums[0] - total) > TIMES * spread + 64 * eps * case.traits.loose * size:
            return f"result {k}: the sum of its elements is {sums[0]}, expected {total}"
    return None


def _moved(case: Case, t: Transformation, eps: float) -> list[Arrays]:
    """Compute a narrow result again, at arguments and constants that are moved by a rounding error. This shows errors
    inside of operations, such as those of differences that cancel."""
    inputs, found = case.inputs, []
    for seed in range(2 * TRIALS):
        signs = np.random.default_rng(seed)
        case.inputs = [x * (1 + eps * signs.choice([-1.0, 1.0], x.shape)) for x in inputs]
        try:
            with rounding(Rounding(t.dtype, 0.0, seed, moved=eps)), np.errstate(all="ignore"):
                found.append(t.way(case, t.quantity))
        except Exception:
            continue  # such as values outside of a domain
        finally:
            case.inputs = inputs
    return found


def _beyond(
    case: Case,
    t: Transformation,
    eps: float,
    found: Arrays,
    expected: Arrays,
    trials: Sequence[Arrays],
    moved: Sequence[Arrays],
) -> str | None:
    """Return which elements differ by more than trials with rounding errors do; None if none does. Ints and bools
    differ if no trial changes any. A result without any digit, as for singular matrices, agrees."""
    few = 8 * eps * case.traits.loose * {"values": 1, "hvp": 16}.get(t.quantity, 4)
    sizes = [float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in case.eager("values") if x.dtype.kind == "f"]
    noise = 16 * eps * max(sizes, default=0.0) + 2 * eps
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        changes = [(trial[k], b) for trial in trials] + [(x[k], a) for x in moved if len(x) == len(found)]
        if any(x.shape != b.shape for x, _ in changes):
            raise Unsuitable("shapes depend on values")
        if b.dtype.kind in "biu":
            unsure = np.any([x != original for x, original in changes], axis=0) if changes else np.zeros(b.shape, bool)
            wrong = (a != b) & ~unsure & ~unsure.any()
        else:
            wrong = _wrong_floats(t, a, b, changes, (few, noise, eps))
        if wrong.any():
            return _described(k, a, b, wrong)
    return None


def _wrong_floats(
    t: Transformation,
    a: NDArray[Any],
    b: NDArray[Any],
    changes: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    limits: tuple[float, float, float],
) -> NDArray[Any]:
    """Return the elements of a that differ from b by more than rounding errors.

    Args:
        t: the transformation.
        a: the result.
        b: the expected one.
        changes: results of trials with rounding errors, each with the result without.
        limits: the error that is allowed relative to an element and in any, and the distance of floats near 1.
    """
    few, noise, eps = limits
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        spread = np.max([np.abs(x - original) for x, original in changes], axis=0, initial=0.0)
        unsure = (~np.isfinite(spread) & finite) | ((np.isnan(a) | np.isnan(b)) & t.mode)
        spread = np.where(np.isfinite(spread), spread, 0.0)
        scale = float(np.abs(b[finite]).max(initial=0.0))
        unsure |= spread > 0.5 * scale + noise
        allowed = TIMES * (spread + 0.02 * spread.max(initial=0.0)) + few * (np.abs(b) + 0.1 * scale) + noise
        wrong: NDArray[Any] = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)) & ~unsure
        if t.dtype != "float64":
            small, big = tiny(dtype_of(t.dtype)), largest(dtype_of(t.dtype))
            if not np.isfinite(a[wrong]).all() or scale > big / 8 or (scale and scale < small / eps):
                raise Unsuitable("overflow or underflow")
    return wrong


def _expected(case: Case, t: Transformation) -> Arrays:
    if t.expected is not None:
        return t.expected(case, t.quantity)
    return case.batch(t.quantity) if t.batch else case.eager(t.quantity)


def _with_errors(case: Case, t: Transformation, errors: Rounding) -> Arrays:
    kept, inputs = case._kept, case.inputs
    if t.dtype != "float64":
        case.inputs = [x.astype(dtype_of(t.dtype)).astype(np.float64) for x in inputs]
    case._kept = {}
    try:
        with rounding(errors), np.errstate(all="ignore"):
            return _expected(case, t)
    finally:
        case._kept, case.inputs = kept, inputs


def _described(k: int, a: Any, b: Any, wrong: Any) -> str:
    first = tuple(int(n) for n in np.argwhere(wrong)[0])
    count = f"{int(wrong.sum())} of {wrong.size} elements differ"
    return f"result {k}: {count}; {list(first)} is {a[first]!s}, expected {b[first]!s}"


def _against_differences(case: Case, t: Transformation) -> str | None:
    """Compare derivatives with differences, where these converge."""
    if not case.traits.differentiable or case.traits.narrow:
        raise Unsuitable("detached")
    base = case.eager(t.of)
    if not all(np.isfinite(x).all() for x in base) or not all(np.isfinite(x).all() for x in case.inputs):
        raise Unsuitable("not finite")
    expected, errors, jumps = differences(case, t.of)
    found = t.way(case, t.quantity)
    for k, (a, b, error, jump, value) in enumerate(zip(found, expected, errors, jumps, base, strict=True)):
        noise = float(np.abs(value).max(initial=0.0)) * 1e-9
        smooth = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
        scale = max(smooth, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
        unsure = ~np.isfinite(b) | (error > 1e-4 * scale + 1e-5) | (jump > 1e-3 * smooth + 1e-4)
        with np.errstate(all="ignore"):
            wrong = ~(np.abs(a - b) <= 20 * error + 1e-4 * np.abs(b) + 1e-5 * scale + noise + 1e-6) & ~unsure
        if wrong.any():
            if np.isnan(a[wrong]).any() and isinstance(case.given, Sample) and case.given.has_infinite_slope():
                raise Unsuitable("0 · infinity")
            _refuse_jumps(case)
            _refuse_ill_conditioned(case, t, k, a)
            return _described(k, a, b, wrong)
        if unsure.all() and b.size:
            raise Unsuitable("the differences do not converge")
    return None


def _refuse_jumps(case: Case) -> None:
    """Raise an error if the value of a step jumps at the arguments: if its change is not less with a smaller step."""
    if not isinstance(case.given, Sample):
        return
    at = case.given.values_at(case.inputs)
    for sign in (1, -1):
        near, far = (
            case.given.values_at([x + sign * h * d for x, d in zip(case.inputs, case.directions, strict=True)])
            for h in (STEP, 4 * STEP)
        )
        for x, y, z in zip(at, near, far, strict=True):
            if x.shape != y.shape or x.shape != z.shape:
                raise Unsuitable("shapes depend on values")
            x, y, z = (v.astype(float) for v in (x, y, z))
            if ((abs(y - x) > 0.7 * abs(z - x)) & (abs(y - x) > 1e-9 * abs(x) + 1e-12)).any():
                raise Unsuitable("a jump")


def _refuse_ill_conditioned(case: Case, t: Transformation, k: int, found: Any) -> None:
    """Raise an error if rounding errors alone change a derivative, as at repeated eigenvalues."""
    for seed in range(2):
        other = _with_errors(case, replace(t, expected=t.way), Rounding("float64", 1e-15, seed))[k]
        scale = float(np.abs(found[np.isfinite(found)]).max(initial=0.0))
        if not (np.abs(other - found) <= 1e-5 * scale + 1e-7)[np.isfinite(found)].all():
            raise Unsuitable("ill-conditioned")
