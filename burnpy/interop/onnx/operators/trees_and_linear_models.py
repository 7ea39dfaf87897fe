"""Operators of the domain ai.onnx.ml, as scikit-learn's pipelines have them: scaling, linear models and trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from burnpy.backend.errors import LoadingError
from burnpy.interop.onnx.operators.table import Value, arange, cast, operator, tensor
from burnpy.tensor.joining import cat, where

Floats = tuple[float, ...]
Numbers = tuple[int, ...]


def _row(x: Value, numbers: Floats) -> Value:
    return tensor(np.array(numbers, x.dtype), x.device)


def _floats(x: Value) -> Value:
    return x if x.dtype.kind == "f" else cast(x, "float32")


@operator("Scaler")
def scaler(x: Value, *, offset: Floats = (), scale: Floats = ()) -> Value:
    """Return (x - offset) · scale."""
    x = _floats(x)
    return (x - _row(x, offset)) * _row(x, scale)


@operator("Normalizer")
def normalizer(x: Value, *, norm: str = "MAX") -> Value:
    """Divide rows by a norm; zeros stay."""
    x = _floats(x)
    size = x.abs().amax((1,), True) if norm == "MAX" else x.norm(p=int(norm[1]), dim=1, keepdim=True)
    return x / size.masked_fill(size == 0, 1.0)


@operator("Binarizer")
def binarizer(x: Value, *, threshold: float = 0.0) -> Value:
    """Return 1 above a threshold, else 0."""
    return cast(x > threshold, x.dtype)


@operator("Imputer")
def imputer(
    x: Value,
    *,
    imputed_value_floats: Floats = (),
    imputed_value_int64s: Numbers = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    """Replace a value, which may be NaN, by one for each column."""
    new = _row(x, imputed_value_floats or imputed_value_int64s).expand(*x.shape)
    old = replaced_value_float if x.dtype.kind == "f" else replaced_value_int64
    return where(x.isnan() if old != old else x == old, new, x)


@operator("ArrayFeatureExtractor")
def feature_extractor(x: Value, index: Value) -> Value:
    """Select elements along the last dimension."""
    picked = x.index_select(x.ndim - 1, cast(index, "int64").reshape(-1))
    return picked.reshape(1, -1) if x.ndim == 1 else picked


@operator("OneHotEncoder")
def one_hot_encoder(x: Value, *, cats_int64s: Numbers = (), zeros: int = 1) -> Value:
    """Return 1 where an element is one of the categories, which are a new last dimension."""
    return cast(x.unsqueeze(-1) == tensor(np.array(cats_int64s, x.dtype), x.device), "float32")


@operator("LabelEncoder")
def label_encoder(
    x: Value,
    *,
    keys_int64s: Numbers = (),
    keys_floats: Floats = (),
    values_int64s: Numbers = (),
    values_floats: Floats = (),
    default_int64: int = -1,
    default_float: float = -0.0,
) -> Value:
    """Map keys to values, and others to a default."""
    keys, floats = keys_int64s or keys_floats, bool(values_floats)
    values: Any = values_floats or values_int64s
    out = cast(x * 0, "float32" if floats else "int64") + (default_float if floats else default_int64)
    for key, value in zip(keys, values, strict=True):
        out = out.masked_fill(x == key, value)
    return out


def _transformed(scores: Value, how: str) -> Value:
    if how == "SOFTMAX":
        return scores.softmax(dim=1)
    if how == "SOFTMAX_ZERO":
        return (scores.masked_fill(scores == 0, -np.inf)).softmax(dim=1)
    if how == "PROBIT":
        return (scores * 2.0 - 1.0).erfinv() * math.sqrt(2.0)
    return scores.sigmoid() if how == "LOGISTIC" else scores


def _classes(scores: Value, labels: Numbers, strings: Any) -> tuple[Value, Value]:
    """Return the label of the best class and the scores; for one score with two labels the class by its sign."""
    if strings:
        raise LoadingError("the file has labels of text, which tensors do not hold; train with numbers as labels")
    if scores.shape[1] == 1 and len(labels) == 2:
        scores = cat([-scores, scores], dim=1)
    return tensor(np.array(labels, np.int64), scores.device).index_select(0, scores.argmax(dim=1)), scores


def _linear(x: Value, matrix: Any, intercepts: Floats) -> Value:
    """Return the product with the rows of a matrix, plus a row of numbers if there is one."""
    x = _floats(x)
    out = x @ tensor(matrix.astype(x.dtype).T.copy(), x.device)
    return out + _row(x, intercepts) if intercepts else out


@operator("LinearClassifier")
def linear_classifier(
    x: Value,
    *,
    classlabels_ints: Numbers = (),
    classlabels_strings: Any = (),
    coefficients: Floats,
    intercepts: Floats = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> Any:
    """Return the classes and the scores of a linear model."""
    scores = _linear(x, np.array(coefficients).reshape(-1, x.shape[1]), intercepts)
    labels, scores = _classes(scores, classlabels_ints, classlabels_strings)
    return labels, _transformed(scores, post_transform)


@operator("LinearRegressor")
def linear_regressor(
    x: Value, *, coefficients: Floats, intercepts: Floats = (), post_transform: str = "NONE", targets: int = 1
) -> Value:
    """Return the values of a linear model."""
    return _transformed(_linear(x, np.array(coefficients).reshape(targets, -1), intercepts), post_transform)


class Trees(NamedTuple):
    """Decision trees as arrays over all nodes, in which a leaf is its own child."""

    features: Any
    limits: Any
    modes: Any  #: the number of the comparison of each node, in `COMPARISONS`
    children: Any  #: those for a comparison that holds, and for the others
    missing: Any  #: whether NaN goes to the first child
    roots: Any
    depth: int
    weights: Any  #: of each node and target
    sets: Any = None  #: for each node the members of a set, and NaN behind them; None without such nodes


COMPARISONS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF")
LEAF, MEMBER = len(COMPARISONS) - 1, len(COMPARISONS)
"""The numbers of a leaf, and of the test whether a number is in a set."""


@lru_cache(16)
def _trees(nodes: tuple[Any, ...], leaves: tuple[Any, ...], targets: int) -> Trees:
    """Return the arrays of trees whose nodes and leaves are lists of attributes."""
    trees, ids, features, limits, modes, then, other, missing = nodes
    places = {key: k for k, key in enumerate(zip(trees, ids, strict=True))}
    leaf = np.array([mode == "LEAF" for mode in modes])
    own = np.arange(len(modes))
    children = np.stack(
        [
            np.where(leaf, own, [places.get((tree, child), 0) for tree, child in zip(trees, part, strict=True)])
            for part in (then, other)
        ]
    )
    roots = [places[tree, ids[trees.index(tree)]] for tree in dict.fromkeys(trees)]
    weights = np.zeros((len(modes), targets))
    for tree, node, target, weight in zip(*leaves, strict=True):
        weights[places[tree, node], target] += weight
    numbers = np.array([COMPARISONS.index(mode) for mode in modes])
    tracks, depth = np.array(missing if missing else [0] * len(modes), bool), _depth(children, roots, leaf)
    return Trees(np.array(features), np.array(limits), numbers, children, tracks, np.array(roots), depth, weights)


def _depth(children: Any, roots: Sequence[int], leaf: Any) -> int:
    """Return the number of comparisons from a root to the farthest leaf."""
    level, depth = np.array(roots), 0
    while len(level) and not leaf[level].all() and depth < len(leaf):
        level, depth = np.unique(children[:, level[~leaf[level]]]), depth + 1
    return depth


def _scores(x: Value, trees: Trees) -> Value:
    """Return the sums of the leaves' weights, (rows, targets)."""
    place = x.device
    features, children = tensor(trees.features, place), [tensor(part.copy(), place) for part in trees.children]
    limits, modes = tensor(trees.limits.astype(x.dtype), place), tensor(trees.modes, place)
    tracks = tensor(trees.missing, place)
    rows = arange(x.shape[0], place).unsqueeze(1)
    at = rows * 0 + tensor(trees.roots, place)
    shape = at.shape

    def of(values: Value) -> Value:
        return values.index_select(0, at.reshape(-1)).reshape(*shape)

    for _ in range(trees.depth):
        found, limit, mode = x.gather(1, of(features)), of(limits), of(modes)
        holds = (found <= limit) & (mode == 0)
        for number, compared in enumerate(
            (found < limit, found >= limit, found > limit, found == limit, found != limit), 1
        ):
            if number in trees.modes:
                holds = holds | (compared & (mode == number))
        if trees.sets is not None:
            members = tensor(trees.sets.astype(x.dtype), place).index_select(0, at.reshape(-1)).reshape(*shape, -1)
            holds = holds | ((found.unsqueeze(-1) == members).any(dim=-1) & (mode == MEMBER))
        holds = where(found.isnan(), of(tracks), holds)
        at = where(holds, of(children[0]), of(children[1]))
    weights = tensor(trees.weights.astype(x.dtype), place)
    return weights.index_select(0, at.reshape(-1)).reshape(*shape, trees.weights.shape[1]).sum(dim=1)


class NodeLists(TypedDict, total=False):
    """The attributes of the nodes of all trees."""

    nodes_falsenodeids: Numbers
    nodes_featureids: Numbers
    nodes_hitrates: Floats
    nodes_missing_value_tracks_true: Numbers
    nodes_modes: tuple[str, ...]
    nodes_nodeids: Numbers
    nodes_treeids: Numbers
    nodes_truenodeids: Numbers
    nodes_values: Floats


NODE_LISTS = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
"""The lists that trees have in any case."""


def _arrays(nodes: NodeLists, leaves: tuple[Any, ...], targets: int) -> Trees:
    """Return trees by lists: of the nodes, and of the trees, nodes, targets and weights of the leaves."""
    lists: dict[str, Any] = {**nodes}
    missing = nodes.get("nodes_missing_value_tracks_true", ())
    return _trees((*[lists[f"nodes_{name}"] for name in NODE_LISTS], missing), leaves, targets)


def _require_sums(kind: str, aggregate: str) -> None:
    if aggregate not in ("SUM", "AVERAGE"):
        raise LoadingError(f"a {kind} takes {aggregate} of its trees; SUM and AVERAGE are read")


@operator("TreeEnsembleClassifier")
def tree_classifier(
    x: Value,
    *,
    base_values: Floats = (),
    class_ids: Numbers,
    class_nodeids: Numbers,
    class_treeids: Numbers,
    class_weights: Floats,
    classlabels_int64s: Numbers = (),
    classlabels_strings: Any = (),
    post_transform: str = "NONE",
    **nodes: Unpack[NodeLists],
) -> Any:
    """Return the classes and the scores of decision trees."""
    x = _floats(x)
    single = len(classlabels_int64s) == 2 and len(set(class_ids)) == 1
    leaves = (class_treeids, class_nodeids, (0,) * len(class_ids) if single else class_ids, class_weights)
    scores = _scores(x, _arrays(nodes, leaves, 1 if single else max(len(classlabels_int64s), 1)))
    scores = scores + _row(x, base_values) if base_values else scores
    if single:  # the probability of the second class, or a score with a sign
        share = min(class_weights) >= 0 and post_transform == "NONE"
        scores = cat([1.0 - scores if share else -scores, scores], dim=1)
    labels, scores = _classes(scores, classlabels_int64s, classlabels_strings)
    return labels, _transformed(scores, post_transform)


@operator("TreeEnsembleRegressor")
def tree_regressor(
    x: Value,
    *,
    aggregate_function: str = "SUM",
    base_values: Floats = (),
    n_targets: int = 1,
    post_transform: str = "NONE",
    target_ids: Numbers,
    target_nodeids: Numbers,
    target_treeids: Numbers,
    target_weights: Floats,
    **nodes: Unpack[NodeLists],
) -> Value:
    """Return the sums or means of the leaves of decision trees."""
    _require_sums("TreeEnsembleRegressor", aggregate_function)
    x = _floats(x)
    trees = _arrays(nodes, (target_treeids, target_nodeids, target_ids, target_weights), n_targets)
    scores = _scores(x, trees)
    scores = scores / len(trees.roots) if aggregate_function == "AVERAGE" else scores
    return _transformed(scores + _row(x, base_values) if base_values else scores, post_transform)


AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The names of numbers in attributes of TreeEnsemble."""


@operator("TreeEnsemble")
def tree_ensemble(
    x: Value,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Numbers,
    leaf_weights: Any,
    membership_values: Any = None,
    n_targets: int = 1,
    nodes_falseleafs: Numbers,
    nodes_falsenodeids: Numbers,
    nodes_featureids: Numbers,
    nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Numbers = (),
    nodes_modes: Any,
    nodes_splits: Any,
    nodes_trueleafs: Numbers,
    nodes_truenodeids: Numbers,
    post_transform: int = 0,
    tree_roots: Numbers,
) -> Value:
    """Return the sums or means of the leaves of decision trees, whose leaves are behind the other nodes."""
    aggregate, count, leaves = AGGREGATES[aggregate_function], len(nodes_modes), len(leaf_weights)
    _require_sums("TreeEnsemble", aggregate)
    own = np.arange(count, count + leaves)
    ways = ((nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs))
    children = np.stack([np.append(np.array(ids) + count * np.array(ends), own) for ids, ends in ways])
    modes = np.append(np.where(nodes_modes < LEAF, nodes_modes, MEMBER), [LEAF] * leaves)
    weights = np.zeros((count + leaves, n_targets))
    weights[own, leaf_targetids] = leaf_weights
    features, tracks = [
        np.append(row or [0] * count, [0] * leaves) for row in (nodes_featureids, nodes_missing_value_tracks_true)
    ]
    trees = Trees(
        features.astype(int),
        np.append(nodes_splits, np.zeros(leaves)),
        modes,
        children,
        tracks.astype(bool),
        np.array(tree_roots),
        _depth(children, tree_roots, modes == LEAF),
        weights,
        _sets(modes, membership_values),
    )
    scores = _scores(_floats(x), trees)
    scores = scores / len(tree_roots) if aggregate == "AVERAGE" else scores
    return _transformed(scores, TRANSFORMS[post_transform])


def _sets(modes: Any, values: Any) -> Any:
    """Return the members of the set of each node, given those of all sets, with NaN behind each; None without sets."""
    nodes = np.flatnonzero(modes == MEMBER)
    if not len(nodes):
        return None
    parts = np.split(values, np.flatnonzero(np.isnan(values)) + 1)[: len(nodes)]
    sets = np.full((len(modes), max(map(len, parts))), np.nan)
    for node, part in zip(nodes, parts, strict=True):
        sets[node, : len(part)] = part
    return sets
