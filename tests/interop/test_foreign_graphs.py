"""Graphs that `export` never writes: unread outputs, indices out of range, loops without steps, weights in nodes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ExportError, IndexRangeError, LoadingError, RecordingError
from burnpy.interop import onnx
from burnpy.interop.onnx.operators.table import tensor
from burnpy.interop.onnx.raw_data import without_raw_data
from burnpy_numpy.kernels.kernel import kernels_enabled
from tests.interop.test_load import node, package

pytestmark = [pytest.mark.heavy("onnx", "onnxruntime")]

FLOAT, INT, BOOL = 1, 7, 9


def info(name: str, kind: int, shape: Any = None) -> Any:
    return package().helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], **settings: Any) -> Any:
    return package().helper.make_graph(nodes, "graph", inputs, outputs, **settings)


def held(name: str, array: Any) -> Any:
    return package().numpy_helper.from_array(np.asarray(array), name)


def constant(name: str, array: Any) -> Any:
    return node("Constant", [], [name], value=held(name, array))


def written(path: Path, inner: Any, opset: int) -> Path:
    helper = package().helper
    imports = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(imports)
    package().save(helper.make_model(inner, opset_imports=imports, ir_version=version), path)
    return path


def agree(path: Path, *inputs: Any, loops: bool = True) -> onnx.OnnxModel[NumPy]:
    """Compare a file with onnxruntime: called, compiled, as source, and written again."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(zip([x.name for x in session.get_inputs()], inputs, strict=True)))
    model, given = onnx.load(path, NumPy), tuple(map(tensor, inputs))
    again = path.with_name("again.onnx")
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(onnx.source(path), "written.py", "exec"), names)
    callables: list[Any] = [model, burnpy.compiled(model), names["Model"](path, NumPy)]
    if loops:
        onnx.export(model, given, again)
        callables.append(onnx.load(again, NumPy))
    for call in callables:
        results = call(*given)
        for result, value in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
            found = result.to_numpy()
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
    return model


def operations(plan: Any) -> list[str]:
    """Return the names of all operations of a plan, also of those that are computed together."""
    return [*[part.name for part in plan.operations], *[name for part in plan.programs for name in part.operations]]


X = np.arange(12, dtype=np.float32).reshape(3, 4) / 5


def test_the_number_of_outputs_is_that_of_the_node(tmp_path: Path) -> None:
    """Parts that nobody reads have their size, as have results of loops and branches."""
    split = node("Split", ["x"], ["y", "unread", "z", "last"], axis=1)
    agree(
        written(
            tmp_path / "a.onnx", graph([split], [info("x", FLOAT, [3, 4])], [info("y", FLOAT), info("z", FLOAT)]), 13
        ),
        X,
    )
    body = graph(
        [node("Identity", ["c"], ["c2"]), node("Add", ["a", "x"], ["a2"]), node("Neg", ["b"], ["b2"])],
        [info("k", INT, []), info("c", BOOL, []), info("a", FLOAT, [3, 4]), info("b", FLOAT, [3, 4])],
        [info("c2", BOOL, []), info("a2", FLOAT, [3, 4]), info("b2", FLOAT, [3, 4])],
    )
    loop = node("Loop", ["n", "go", "x", "x"], ["y", "unread"], body=body)
    inputs = [info("x", FLOAT, [3, 4]), info("go", BOOL, [])]
    agree(
        written(tmp_path / "b.onnx", graph([loop], inputs, [info("y", FLOAT)], initializer=[held("n", 3)]), 20),
        X,
        np.array(True),
    )
    then = graph([node("Exp", ["x"], ["p"]), node("Abs", ["x"], ["q"])], [], [info("p", FLOAT), info("q", FLOAT)])
    other = graph([node("Neg", ["x"], ["r"]), node("Sin", ["x"], ["s"])], [], [info("r", FLOAT), info("s", FLOAT)])
    branch = node("If", ["go"], ["y", "unread"], then_branch=then, else_branch=other)
    path = written(tmp_path / "c.onnx", graph([branch], inputs, [info("y", FLOAT)]), 20)
    for go in (True, False):
        agree(path, X, np.array(go))


def test_an_index_that_does_not_exist(tmp_path: Path) -> None:
    """OneHot is off at it; a place beyond a row is not one of the next row."""
    index = np.array([-3, -1, 0, 2, 3, 7, -4])
    hot = graph([node("OneHot", ["i", "n", "v"], ["y"])], [info("i", INT, [7])], [info("y", FLOAT)],
                initializer=[held("n", 3), held("v", np.array([-1, 5], np.float32))])  # fmt: skip
    agree(written(tmp_path / "a.onnx", hot, 13), index)
    taken = graph([node("GatherND", ["x", "i"], ["y"])], [info("x", FLOAT), info("i", INT)], [info("y", FLOAT)])
    model = onnx.load(written(tmp_path / "b.onnx", taken, 13), NumPy)
    assert model(tensor(X), tensor(np.array([[2, -1], [0, 3]]))).tolist() == [X[2, 3].item(), X[0, 3].item()]
    with pytest.raises(IndexRangeError):
        model(tensor(X), tensor(np.array([[0, 4]])))


def test_a_loop_whose_number_of_steps_is_an_input(tmp_path: Path) -> None:
    """A compiled function does not read it."""
    body = graph(
        [node("Identity", ["c"], ["c2"]), node("Add", ["a", "x"], ["a2"])],
        [info("k", INT, []), info("c", BOOL, []), info("a", FLOAT, [3, 4])],
        [info("c2", BOOL, []), info("a2", FLOAT, [3, 4])],
    )
    loop = graph([node("Loop", ["n", "", "x"], ["y"], body=body)], [info("x", FLOAT, [3, 4]), info("n", INT, [])],
                 [info("y", FLOAT)])  # fmt: skip
    for steps in (0, 3):
        agree(written(tmp_path / "a.onnx", loop, 13), X, np.array(steps))


def test_loops_over_rows_are_written_for_all_numbers_of_rows(tmp_path: Path) -> None:
    """A Scan, and a Loop whose number of steps is a size, which nothing ends earlier, are one operation of a plan."""
    row, states = [info("row", FLOAT, [4])], [info("a", FLOAT, [4])]
    step = [node("Add", ["a", "row"], ["b"]), node("Tanh", ["b"], ["s"])]
    results = [info("b", FLOAT, [4]), info("s", FLOAT, [4])]
    settings = {"num_scan_inputs": 1, "scan_input_directions": [1], "scan_output_axes": [1]}
    picked = [node("Gather", ["x", "k"], ["row"]), *step, node("Identity", ["c"], ["d"])]
    body = graph(picked, [info("k", INT, []), info("c", BOOL, []), *states], [info("d", BOOL, []), *results])
    nodes = [
        node("Scan", ["zeros", "x"], ["p", "q"], body=graph(step, [*states, *row], results), **settings),
        node("Shape", ["x"], ["n"], end=1),
        node("Squeeze", ["n"], ["steps"]),
        node("Loop", ["steps", "", "zeros"], ["r", "rows"], body=body),
        node("Transpose", ["q"], ["t"]),
        node("Sum", ["p", "r", "t", "rows"], ["y"]),
    ]
    whole = graph(nodes, [info("x", FLOAT, ["n", 4])], [info("y", FLOAT)], initializer=[held("zeros", X[0] * 0)])
    path = written(tmp_path / "a.onnx", whole, 20)
    agree(path, X)
    sizes_agree(path, [(3, 4), (1, 4), (7, 4)], {"x": {0: "n"}})


def test_lengths_of_sequences_are_written_for_all_numbers_of_steps(tmp_path: Path) -> None:
    """By the operators where burnpy has an operation, also with all cell states; as a Scan where it has none."""
    rng = np.random.default_rng(0)

    def weights(directions: int, gates: int) -> list[Any]:
        shapes = (directions, 4 * gates, 3), (directions, 4 * gates, 4), (directions, 8 * gates)
        return [
            held(f"{name}{gates}", rng.normal(size=n).astype(np.float32)) for name, n in zip("wrb", shapes, strict=True)
        ]

    settings = {"hidden_size": 4, "direction": "bidirectional"}
    nodes = [
        node("LSTM", ["x", "w4", "r4", "b4", "n"], ["p", "", "c"], **settings),
        node("GRU", ["x", "w3", "r3", "b3", "n"], ["q", "h"], hidden_size=4),
        node("ReduceSum", ["p"], ["both"]),
        node("Sum", ["both", "c", "q", "h"], ["y"]),
    ]
    made = [*weights(2, 4), *weights(1, 3)]
    inputs = [info("x", FLOAT, ["t", 3, 3]), info("n", 6, [3])]
    path = written(tmp_path / "a.onnx", graph(nodes, inputs, [info("y", FLOAT)], initializer=made), 20)
    sizes_agree(path, [(2, 3, 3), (6, 3, 3)], {"x": {0: "t"}}, np.array([2, 1, 2], np.int32))


@pytest.mark.parametrize("declared", [True, False])
def test_a_loop_without_steps(declared: bool, tmp_path: Path) -> None:
    body = graph(
        [node("Identity", ["c"], ["c2"]), node("Mul", ["a", "a"], ["a2"]), node("Slice", ["a", "s", "e"], ["row"])],
        [info("k", INT, []), info("c", BOOL, []), info("a", FLOAT, [3, 4])],
        [info("c2", BOOL, []), info("a2", FLOAT, [3, 4]), info("row", FLOAT, [1, 4] if declared else None)],
        initializer=[held("s", np.array([0])), held("e", np.array([1]))],
    )
    loop = graph([node("Loop", ["n", "", "x"], ["y", "rows"], body=body)], [info("x", FLOAT, [3, 4])],
                 [info("y", FLOAT), info("rows", FLOAT)], initializer=[held("n", 0)])  # fmt: skip
    agree(written(tmp_path / "a.onnx", loop, 13), X)


def test_a_branch_that_does_not_fit_the_input(tmp_path: Path) -> None:
    """A recording has the other branch alone, and a run that would choose this one is an error, as without a plan."""
    then = graph(
        [node("MatMul", ["x", "w"], ["p"])],
        [],
        [info("p", FLOAT)],
        initializer=[held("w", np.ones((5, 2), np.float32))],
    )
    other = graph(
        [node("MatMul", ["x", "v"], ["q"])],
        [],
        [info("q", FLOAT)],
        initializer=[held("v", np.ones((4, 2), np.float32))],
    )
    branch = node("If", ["go"], ["y"], then_branch=then, else_branch=other)
    inputs = [info("x", FLOAT), info("go", BOOL, [])]
    path = written(tmp_path / "a.onnx", graph([branch], inputs, [info("y", FLOAT)]), 20)
    model = onnx.load(path, NumPy)
    assert len(model.named_params()) == 2
    compiled = burnpy.compiled(model)
    assert compiled(tensor(X), tensor(False)).allclose(model(tensor(X), tensor(False)))
    with pytest.raises(LoadingError, match="then_branch of an If cannot be computed with inputs of these shapes"):
        compiled(tensor(X), tensor(True))
    with pytest.raises(burnpy.errors.ShapeError):
        model(tensor(X), tensor(True))


def test_numbers_of_shapes_stay_on_the_host(tmp_path: Path) -> None:
    """As TensorFlow resizes: a size times a float is a shape, whose factors are no parameters."""
    nodes = [
        node("Shape", ["x"], ["n"], start=2),
        node("Cast", ["n"], ["f"], to=FLOAT),
        node("Mul", ["f", "two"], ["g"]),
        node("Cast", ["g"], ["m"], to=INT),
        node("Concat", ["lead", "m"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["big"], mode="nearest"),
        node("Resize", ["big", "", "scales"], ["z"], mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Mul", ["z", "two"], ["y"]),
    ]
    held_ = [
        held("two", np.float32(2)),
        held("lead", np.array([1, 1])),
        held("scales", np.array([1, 1, 0.5, 2], np.float32)),
    ]
    path = written(
        tmp_path / "a.onnx", graph(nodes, [info("x", FLOAT, [1, 1, 3, 4])], [info("y", FLOAT)], initializer=held_), 20
    )
    assert not agree(path, X.reshape(1, 1, 3, 4)).named_params()
    assert "tf_half_pixel_for_nn" not in onnx.source(path)


def test_what_depends_on_sizes_is_written_again_for_all_sizes(tmp_path: Path) -> None:
    """Positions, masks and parts of tables, as PyTorch computes them, are operations; numbers stay on the host."""
    import onnxruntime

    table, half = np.arange(40).reshape(1, 40) % 7, np.float32(0.5)
    kept = {"zero": [0], "one": [1], "axes": [1], "start": 0, "step": 1, "table": table, "half": half, "dims": [-1]}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Shape", ["x"], ["batch"], end=1),
        node("Shape", ["x"], ["length"], start=1),
        node("Squeeze", ["length"], ["n"]),
        node("Range", ["start", "n", "step"], ["order"]),
        node("Unsqueeze", ["order", "one"], ["column"]),
        node("LessOrEqual", ["order", "column"], ["causal"]),
        node("Slice", ["table", "zero", "length", "axes"], ["part"]),
        node("Expand", ["part", "shape"], ["ids"]),
        node("Gather", ["weight", "ids"], ["picked"]),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Equal", ["zeros", "half"], ["none"]),
        node("Not", ["none"], ["all"]),
        node("Cast", ["all"], ["ones"], to=FLOAT),
        node("Cast", ["shape"], ["sizes"], to=FLOAT),
        node("ReduceProd", ["sizes"], ["count"], keepdims=0),
        node("Unsqueeze", ["x", "one"], ["rows"]),
        node("Where", ["causal", "rows", "half"], ["masked"]),
        node("ReduceSum", ["masked", "dims"], ["sums"], keepdims=0),
        node("Add", ["sums", "picked"], ["a"]),
        node("Add", ["a", "ones"], ["b"]),
        node("Div", ["b", "count"], ["c"]),
        node("Mul", ["sizes", "half"], ["d"]),
        node("Concat", ["batch", "length"], ["same"], axis=0),
        node("Reshape", ["c", "same"], ["y"]),
    ]
    arrays = [held(name, np.asarray(array)) for name, array in kept.items()]
    arrays.append(held("weight", np.linspace(1, 2, 7, dtype=np.float32)))
    outputs = [info("y", FLOAT), info("d", FLOAT)]
    whole = graph(nodes, [info("x", FLOAT, ["b", "l"])], outputs, initializer=arrays)
    path, again = written(tmp_path / "a.onnx", whole, 18), tmp_path / "dynamic.onnx"
    model = agree(path, X)
    assert "arange" not in operations(burnpy.compiled(model).explain(tensor(X))), "positions are computed once"
    onnx.export(model, (tensor(X),), again, dynamic={"x": {0: "b", 1: "l"}})
    for x in (X, X[:1, :1], np.tile(X, (1, 5))):
        results = [onnxruntime.InferenceSession(file).run(None, {"x": x}) for file in (path, again)]
        for one, two in zip(*results, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
            assert one.dtype == two.dtype


def sizes_agree(path: Path, shapes: list[tuple[int, ...]], dynamic: Any, *more: Any) -> None:
    """Compare a file, which is written again for all sizes, with itself in onnxruntime, for inputs of shapes."""
    import onnxruntime

    again, rng = path.with_name("dynamic.onnx"), np.random.default_rng(1)
    feeds = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    model = onnx.load(path, NumPy)
    onnx.export(model, (tensor(feeds[0]), *map(tensor, more)), again, dynamic=dynamic)
    for x in feeds:
        values = dict(zip(model.graph.inputs, (x, *more), strict=True))
        results = [onnxruntime.InferenceSession(file).run(None, values) for file in (path, again)]
        for one, two in zip(*results, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_places_of_ones_follow_from_sizes(tmp_path: Path) -> None:
    """As PyTorch counted before ONNX had Range: ones of a shape, whose places are those of all elements."""
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["ones"], value=held("", np.array([1]))),
        node("NonZero", ["ones"], ["places"]),
        node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        node("GatherND", ["x", "rows"], ["flat"]),
        node("Split", ["places"], ["first", "second"], axis=0, num_outputs=2),
        node("Cast", ["first"], ["numbers"], to=FLOAT),
        node("Add", ["flat", "numbers"], ["y"]),
    ]
    path = written(tmp_path / "a.onnx", graph(nodes, [info("x", FLOAT, ["b", "l"])], [info("y", FLOAT)]), 18)
    agree(path, X)
    sizes_agree(path, [(3, 4), (1, 1), (2, 9)], {"x": {0: "b", 1: "l"}})


def test_numbers_of_elements_of_all_sizes(tmp_path: Path) -> None:
    """Products of several sizes; and numbers of an output alone, which need more recordings."""
    dims = ["b", 2, "h", "w"]
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]), node("Size", ["x"], ["count"])]
    whole = graph(
        [*nodes, node("Shape", ["y"], ["sizes"])], [info("x", FLOAT, dims)], [info("count", INT), info("sizes", INT)]
    )
    path = written(tmp_path / "a.onnx", whole, 18)
    sizes_agree(path, [(1, 2, 4, 4), (3, 2, 5, 9), (2, 2, 17, 2)], {"x": {0: "b", 2: "h", 3: "w"}})
    bounds = [held(name, np.array([n])) for name, n in (("zero", 0), ("six", 6), ("two", 2))]
    nodes = [node("Slice", ["x", "zero", "six", "two"], ["part"]), node("Size", ["part"], ["y"])]
    whole = graph(nodes, [info("x", FLOAT, dims)], [info("y", INT)], initializer=bounds)
    path = written(tmp_path / "b.onnx", whole, 18)
    with pytest.raises(ExportError, match=r"a size is .* cannot express"):
        sizes_agree(path, [(1, 2, 4, 4)], {"x": {2: "h"}})


def test_sizes_of_which_a_model_takes_few(tmp_path: Path) -> None:
    """The second half of 4, 5, 8 or 9 rows can be halved again; it is two rows for the example and those next to it."""
    halves = node("Split", ["x"], ["a", "b"], axis=2, num_outputs=2)
    whole = graph(
        [halves, node("SpaceToDepth", ["b"], ["y"], blocksize=2)],
        [info("x", FLOAT, [1, 1, "h", 4])],
        [info("a", FLOAT), info("y", FLOAT)],
    )
    path = written(tmp_path / "a.onnx", whole, 18)
    sizes_agree(path, [(1, 1, h, 4) for h in (5, 4, 8, 9, 12, 17)], {"x": {2: "h"}})


def test_backward_slices_that_start_before_the_first_element(tmp_path: Path) -> None:
    """A Slice takes the first element then, and Python's none; and its end may be the largest int."""
    numbers = {"four": -4, "one": -1, "axis": 0, "least": -(2**31), "most": 2**63 - 1}
    bounds = [held(name, np.array([n])) for name, n in numbers.items()]
    rows = [("four", "least"), ("one", "most")]
    nodes = [node("Slice", ["x", *row, "axis", "one"], [f"y{k}"]) for k, row in enumerate(rows)]
    outputs = [info("y0", FLOAT), info("y1", FLOAT)]
    agree(written(tmp_path / "a.onnx", graph(nodes, [info("x", FLOAT)], outputs, initializer=bounds), 18), X)
    x = Tensor[NumPy].from_data(np.arange(6, dtype=np.float32))
    onnx.export(lambda x: (x[-4::-1], x[-2:-5:-2]), (x,), tmp_path / "b.onnx", dynamic={"x": {0: "n"}})
    for n in range(1, 7):
        onnx.verify(tmp_path / "b.onnx", lambda x: (x[-4::-1], x[-2:-5:-2]), (x[:n],))


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(("places", "ratio"), [("half_pixel", 2), ("output_half_pixel", 3), ("half_pixel", 0)])
def test_regions_of_images(tmp_path: Path, places: str, mode: str, ratio: int) -> None:
    """Regions may be partly outside of the image; those without a ratio depend on values, which a plan cannot read."""
    settings = {"coordinate_transformation_mode": places, "sampling_ratio": ratio, "mode": mode}
    regions = node("RoiAlign", ["x", "r", "b"], ["y"], output_height=3, output_width=2, spatial_scale=0.5, **settings)
    inputs = [info("x", FLOAT, ["n", 2, "h", "w"]), info("r", FLOAT, ["k", 4]), info("b", INT, ["k"])]
    path = written(tmp_path / "a.onnx", graph([regions], inputs, [info("y", FLOAT)]), 18)
    boxes = np.array([[0, 0, 9, 9], [3, 2, 4, 14], [-6, -3, 5, 5], [10, 8, 30, 12], [4, 4, 4, 4]], np.float32)
    members, x = np.array([0, 1, 1, 0, 2]), np.random.default_rng(0).normal(size=(3, 2, 6, 7)).astype(np.float32)
    if ratio:
        agree(path, x, boxes, members)
        sizes_agree(path, [x.shape, (4, 2, 5, 9)], {"x": {0: "n", 2: "h", 3: "w"}}, boxes, members)
        agree(path, x, boxes[:0], members[:0], loops=False)
        return
    (difference,) = onnx.verify(path, model := onnx.load(path, NumPy), tuple(map(tensor, (x, boxes, members))))
    assert difference.largest < 1e-6
    with pytest.raises(RecordingError, match=r"RoiAlign"):
        burnpy.compiled(model)(*map(tensor, (x, boxes, members)))


def test_weights_are_parameters_wherever_the_file_has_them(tmp_path: Path) -> None:
    """In nodes and as sparse initializers; not what is an int, a mask or one number."""
    helper = package().helper
    sparse = helper.make_sparse_tensor(
        held("sparse", np.array([2, 3], np.float32)), held("at", np.array([1, 4])), [4, 2]
    )
    nodes = [
        constant("w", np.ones((4, 4), np.float32)),
        constant("b", np.arange(4, dtype=np.float32)),
        constant("eps", np.float32(1e-3)),
        constant("mask", np.array([0, -np.inf, 0, 0], np.float32)),
        constant("axes", np.array([1])),
        node("MatMul", ["x", "w"], ["p"]),
        node("Add", ["p", "b"], ["q"]),
        node("Add", ["q", "mask"], ["r"]),
        node("Softmax", ["r"], ["s"]),
        node("Add", ["s", "eps"], ["t"]),
        node("ReduceSum", ["t", "axes"], ["u"]),
        node("Mul", ["t", "u"], ["v"]),
        node("MatMul", ["v", "sparse"], ["y"]),
    ]
    inner = graph(nodes, [info("x", FLOAT, [3, 4])], [info("y", FLOAT)], sparse_initializer=[sparse])
    model = agree(written(tmp_path / "a.onnx", inner, 20), X)
    assert [*model.named_params()] == ["weights.sparse", "weights.w", "weights.b"]
    again = onnx.load(tmp_path / "again.onnx", NumPy)
    assert len(again.named_params()) == 3


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float32])
def test_pad_without_a_constant(dtype: Any, tmp_path: Path) -> None:
    kind = package().helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inner = graph([node("Pad", ["x", "p"], ["y"])], [info("x", kind, [2, 2])], [info("y", kind)],
                  initializer=[held("p", np.array([1, 0, 0, 1]))])  # fmt: skip
    agree(written(tmp_path / "a.onnx", inner, 20), np.array([[1, 0], [1, 1]], dtype))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_by_own_elements_is_written_for_all_sizes(mode: str, tmp_path: Path) -> None:
    inner = graph([node("Pad", ["x", "p"], ["y"], mode=mode)], [info("x", FLOAT, ["b", "l"])], [info("y", FLOAT)],
                  initializer=[held("p", np.array([0, 3, 1, 2]))])  # fmt: skip
    path = written(tmp_path / "a.onnx", inner, 20)
    agree(path, X)
    sizes_agree(path, [(3, 5), (2, 4), (4, 12), *[(1, 1)] * (mode == "wrap")], {"x": {0: "b", 1: "l"}})
    if mode == "wrap":  # several times around
        agree(path, X[:1, :1])


def test_an_output_that_is_a_constant_of_a_recording(tmp_path: Path) -> None:
    nodes = [node("Size", ["x"], ["n"]), node("CastLike", ["n", "i"], ["count"]), node("ReduceMax", ["count"], ["y"])]
    inputs = [info("x", FLOAT, ["b", 4]), info("i", INT, [1])]
    path = written(tmp_path / "a.onnx", graph(nodes, inputs, [info("y", INT)]), 20)
    agree(path, X, np.array([1]))
    sizes_agree(path, [(3, 4), (7, 4)], {"x": {0: "b"}}, np.array([1]))


@pytest.mark.parametrize(("power", "weights"), [(2.0, 0), (3.0, 0), (2.5, 1)])
def test_squares_and_cubes_are_products(power: float, weights: int, tmp_path: Path) -> None:
    """Also where a file has the exponent as an initializer, which is a parameter if it may be a learned one."""
    exponent = held("p", np.array([power], np.float32))
    inner = graph(
        [node("Pow", ["x", "p"], ["y"])], [info("x", FLOAT, [3, 4])], [info("y", FLOAT)], initializer=[exponent]
    )
    model = agree(written(tmp_path / "a.onnx", inner, 20), X)
    assert len(model.named_params()) == weights
    assert ("pow" in operations(burnpy.compiled(model).explain(tensor(X)))) == bool(weights)


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    helper = package().helper
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    inner = graph([node("Twice", ["x"], ["y"], domain="own")], [info("x", FLOAT, [3, 4])], [info("y", FLOAT)])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    package().save(
        helper.make_model(inner, opset_imports=imports, functions=[twice], ir_version=9), tmp_path / "a.onnx"
    )
    agree(tmp_path / "a.onnx", X)


def test_defaults_of_local_functions(tmp_path: Path) -> None:
    """In branches as well, and in a function that another one calls; a call may give another number."""
    helper, opsets = package().helper, [package().helper.make_opsetid("", 20), package().helper.make_opsetid("own", 1)]
    leaky, call = node("LeakyRelu", ["a"], ["b"]), node("Leaky", ["a"], ["b"], domain="own")
    leaky.attribute.add(name="alpha", ref_attr_name="alpha", type=package().AttributeProto.FLOAT)
    defaults = [helper.make_attribute("alpha", 0.25)]
    functions = [
        helper.make_function("own", "Leaky", ["a"], ["b"], [leaky], opsets, [], defaults),
        helper.make_function("own", "Calls", ["a"], ["b"], [call], opsets),
    ]
    one = graph([node("Calls", ["x"], ["p"], domain="own")], [], [info("p", FLOAT)])
    two = graph([node("Leaky", ["x"], ["q"], domain="own", alpha=0.5)], [], [info("q", FLOAT)])
    branch = node("If", ["go"], ["y"], then_branch=one, else_branch=two)
    inner = graph([branch], [info("x", FLOAT, [3, 4]), info("go", BOOL, [])], [info("y", FLOAT)])
    package().save(
        helper.make_model(inner, opset_imports=opsets, functions=functions, ir_version=9), tmp_path / "a.onnx"
    )
    for go in (True, False):
        agree(tmp_path / "a.onnx", X - 1, np.array(go))


def test_local_functions_of_another_version_are_converted(tmp_path: Path) -> None:
    """Axes are an attribute of opset 12 and an input of opset 18, where the softmax of opset 12 is of a matrix."""
    helper, old = package().helper, package().helper.make_opsetid("", 12)
    steps = [node("Softmax", ["a"], ["s"], axis=1), node("ReduceSum", ["s"], ["b"], axes=[1], keepdims=0)]
    total = helper.make_function("own", "Total", ["a"], ["b"], steps, [old])
    nodes = [node("Total", ["x"], ["t"], domain="own"), node("Exp", ["t"], ["y"])]
    inner = graph(nodes, [info("x", FLOAT, ["n", 3, 4])], [info("y", FLOAT, ["n", 4])])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    package().save(
        helper.make_model(inner, opset_imports=imports, functions=[total], ir_version=9), tmp_path / "a.onnx"
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    parts = np.exp(x) / np.exp(x).sum((1, 2), keepdims=True)
    found = onnx.load(tmp_path / "a.onnx", NumPy)(tensor(x))  # onnxruntime does not convert, and refuses the file
    np.testing.assert_allclose(found.to_numpy(), np.exp(parts.sum(1)), rtol=1e-5)


def test_half_pixels_of_tensorflow() -> None:
    """onnxruntime: nearest neighbours of 4 elements for 6 lie at 0, 1, 1, 2, 3, 3."""
    from burnpy.interop.onnx.operators.images_and_signals import resize

    x = Tensor[NumPy].arange(4.0).reshape(1, 1, 1, 4)
    out = resize(
        x, None, np.array([1, 1, 1, 1.5]), mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn", opset=13,
    )  # fmt: skip
    assert out.reshape(-1).tolist() == [0.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    with pytest.raises((LoadingError, ArgumentError)):
        resize(x, None, np.array([1, 1, 1, 1.5]), coordinate_transformation_mode="other", opset=13)


@pytest.mark.parametrize(("direction", "full"), [("forward", False), ("reverse", True), ("bidirectional", True)])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_networks_with_all_inputs_and_with_few(tmp_path: Path, kind: str, direction: str, full: bool) -> None:
    """Whole sequences are one operation, with lengths as well."""
    ways, size, gates = 1 + (direction == "bidirectional"), 5, {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    shapes: dict[str, tuple[int, ...]] = {"x": (6, 4, 3), "w": (ways, gates * size, 3), "r": (ways, gates * size, size)}
    if full:
        shapes |= {"b": (ways, 2 * gates * size), "n": (4,), "h": (ways, 4, size), "c": (ways, 4, size)}
    if kind != "LSTM":
        shapes.pop("c", None)
    rng, settings = np.random.default_rng(0), {"linear_before_reset": 1} if kind == "GRU" else {}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    if full:
        arrays["n"] = np.array([6, 2, 1, 4], np.int32)
    outputs = ["y", "last", "cells"][: 3 if kind == "LSTM" else 2]
    network = node(kind, [*shapes], outputs, hidden_size=size, direction=direction, **settings)
    inputs = [info(name, 6 if name == "n" else FLOAT, shape) for name, shape in shapes.items()]
    whole = graph([network], inputs, [info(name, FLOAT) for name in outputs])
    model = agree(written(tmp_path / "a.onnx", whole, 21), *arrays.values(), loops=not full)
    plan = burnpy.compiled(model).explain(*map(tensor, arrays.values()))
    assert [part.name for part in plan.parts].count(kind.lower()) == ways


def test_large_data_is_read_from_its_place_in_the_file(tmp_path: Path) -> None:
    """Initializers, Constant nodes and those within branches are read; the parser gets the rest alone."""
    arrays = [np.random.default_rng(k).uniform(0.1, 0.2, (40, 40)).astype(np.float32) for k in range(3)]
    then = graph([constant("v", arrays[1]), node("Add", ["x", "v"], ["p"])], [], [info("p", FLOAT)])
    other = graph([node("Identity", ["x"], ["q"])], [], [info("q", FLOAT)])
    nodes = [constant("c", arrays[0]), node("If", ["go"], ["y"], then_branch=then, else_branch=other),
             node("MatMul", ["y", "c"], ["z"]), node("MatMul", ["z", "w"], ["out"])]  # fmt: skip
    whole = graph(nodes, [info("x", FLOAT, [40, 40]), info("go", BOOL, [])], [info("out", FLOAT)],
                  initializer=[held("w", arrays[2])])  # fmt: skip
    path = written(tmp_path / "a.onnx", whole, 20)
    assert len(without_raw_data(path)) < 1000 < path.stat().st_size / 10
    agree(path, np.eye(40, dtype=np.float32), np.array(True))
    (tmp_path / "b.onnx").write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(LoadingError, match="damaged"):
        onnx.load(tmp_path / "b.onnx", NumPy)


@pytest.mark.parametrize("image", [(1, 6, 5, 3), (2, 6, 5, 3), (1, 1, 1, 3), (0, 6, 5, 3)])
def test_channels_last_between_convolutions(tmp_path: Path, image: tuple[int, ...]) -> None:
    """Nothing is permuted between convolutions, also where parts are joined and a value is read several times."""
    rng, last, first = np.random.default_rng(0), (0, 2, 3, 1), (0, 3, 1, 2)
    weights = {"w": (3, 3, 3, 3), "v": (4, 6, 1, 1), "a": (3,), "b": (1, 1, 1, 4), "c": ()}
    conv = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    path = written(
        tmp_path / "a.onnx",
        graph(
            [
                node("Transpose", ["x"], ["x1"], perm=first),
                node("Conv", ["x1", "w"], ["y1"], **conv),
                node("Transpose", ["y1"], ["y2"], perm=last),
                node("Add", ["y2", "a"], ["y3"]),
                node("Relu", ["y3"], ["y4"]),
                node("Concat", ["y4", "y2"], ["y5"], axis=3),
                node("Transpose", ["y5"], ["y6"], perm=first),
                node("Conv", ["y6", "v"], ["z1"]),
                node("Transpose", ["z1"], ["z2"], perm=last),
                node("Mul", ["b", "z2"], ["z3"]),
                node("Greater", ["z3", "c"], ["more"]),
                node("Where", ["more", "z3", "z2"], ["z4"]),
                node("ReduceMean", ["z4"], ["mean"], axes=(1, 2), keepdims=0),
                node("ReduceMax", ["z4"], ["most"], axes=(1, 2), keepdims=1),
                node("Sub", ["z4", "most"], ["less"]),
            ],
            [info("x", FLOAT, image)],
            [info("mean", FLOAT), info("less", FLOAT), info("more", BOOL)],
            initializer=[held(name, rng.standard_normal(shape).astype("f4")) for name, shape in weights.items()],
        ),
        13,
    )
    x = rng.standard_normal(image).astype("f4")
    if not x.size:
        run, eager = burnpy.compiled(onnx.load(path, NumPy)), onnx.load(path, NumPy)
        assert [y.shape for y in run(tensor(x))[1:]] == [y.shape for y in eager(tensor(x))[1:]] == [(0, 6, 5, 4)] * 2
        return
    model = agree(path, x)
    if image == (2, 6, 5, 3) and kernels_enabled():
        plan = burnpy.compiled(model).explain(tensor(x))
        assert operations(plan).count("permute") <= 3  # of the image and of the two results


@pytest.mark.parametrize("pads", [[0, 0, 1, 2, 0, 0, 1, 2], [0, 0, 0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 0, 0, 1, 1]])
def test_zeros_around_images_are_padding_of_the_convolution(tmp_path: Path, pads: list[int]) -> None:
    """Not those of other values, of channels, or that another node reads."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, 3, 7, 8)).astype(np.float32), rng.normal(size=(4, 3 + pads[1], 3, 3))
    for k, (value, unread) in enumerate([(None, True), (0.0, True), (1.0, True), (None, False)]):
        initializer = [held("pads", np.array(pads)), held("w", weight.astype(np.float32))]
        initializer += [] if value is None else [held("value", np.float32(value))]
        nodes = [node("Pad", ["x", "pads"] + ["value"] * (value is not None), ["wide"]),
                 node("Conv", ["wide", "w"], ["y"], strides=[2, 1], pads=[1, 0, 0, 1])]  # fmt: skip
        outputs = [info("y", FLOAT)] + [info("wide", FLOAT)] * (not unread)
        whole = graph(nodes, [info("x", FLOAT, [2, 3, 7, 8])], outputs, initializer=initializer)
        model = agree(written(tmp_path / f"{k}.onnx", whole, 20), x)
        joined = unread and not value and not pads[1]
        assert [entry.kind for entry in model.graph.nodes] == (["Conv"] if joined else ["Pad", "Conv"])


@pytest.mark.parametrize("kept", ["", "y", "zero", "sum"])
def test_dynamic_quantization_in_floats(tmp_path: Path, kept: str) -> None:
    """Ints between a quantization and a Cast are floats, unless the graph returns them; a compiled model converts
    weights once.
    """
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (6, 3, 3, 3)).astype(np.int8), random.integers(0, 256, (8, 5)).astype(np.uint8)
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"]),
        node("ConvInteger", ["y", "w", "zero"], ["ints"], pads=[1, 1, 1, 1]),
        node("Add", ["bias", "ints"], ["sum"]),
        node("Cast", ["sum"], ["float"], to=FLOAT),
        node("Mul", ["float", "scale"], ["conv"]),
        node("DynamicQuantizeLinear", ["conv"], ["y2", "scale2", "zero2"]),
        node("MatMulInteger", ["y2", "m", "zero2", "m_zero"], ["ints2"]),
        node("Cast", ["ints2"], ["float2"], to=FLOAT),
        node("MatMulInteger", ["y2", "m", "zero2"], ["ints3"]),  # without a zero point of the matrix
        node("Cast", ["ints3"], ["float3"], to=FLOAT),
        node("Add", ["float2", "float3"], ["floats"]),
        node("Mul", ["floats", "scale2"], ["out"]),
    ]
    held_arrays = [held("w", weights[0]), held("m", weights[1]), held("m_zero", np.uint8(128))]
    held_arrays.append(held("bias", random.integers(-900, 900, (1, 6, 1, 1)).astype(np.int32)))
    kinds = {"y": 2, "zero": 2, "sum": 6}
    outputs = [info("out", FLOAT), *([info(kept, kinds[kept])] if kept else [])]
    inner = graph(nodes, [info("x", FLOAT, [2, 3, 4, 8])], outputs, initializer=held_arrays)
    path = written(tmp_path / "a.onnx", inner, 13)
    x = random.normal(size=(2, 3, 4, 8)).astype(np.float32)
    model = agree(path, x, loops=False)
    zeros = model(tensor(np.zeros_like(x)))
    assert np.isfinite((zeros[0] if kept else zeros).to_numpy()).all()
    step = burnpy.compiled(model)
    step(tensor(x))
    shapes = [shape for part in step.explain(tensor(x)).operations for shape in part.shapes]
    assert not {(6, 3, 3, 3), (8, 5)} & set(shapes)


RANDOM = np.random.default_rng(0)
COLUMNS = RANDOM.uniform(0.01, 0.02, 64).astype(np.float32)
BLOCKS = RANDOM.uniform(0.01, 0.02, (5, 64)).astype(np.float32)
ZEROS = RANDOM.integers(-9, 9, 64).astype(np.int8)


@pytest.mark.parametrize(
    ("kind", "dtype", "scale", "zero", "settings"),
    [
        ("MatMul", np.int8, COLUMNS[0], None, {}),
        ("MatMul", np.int8, COLUMNS, np.zeros(64, np.int8), {"axis": 1}),
        ("MatMul", np.int8, COLUMNS, ZEROS, {"axis": -1}),
        ("MatMul", np.uint8, COLUMNS[0], None, {}),
        ("MatMul", np.uint8, COLUMNS[:1], np.full(1, 130, np.uint8), {}),
        ("MatMul", np.int8, BLOCKS, None, {"axis": 0, "block_size": 16}),
        ("MatMul", np.int8, BLOCKS, np.ones((5, 64), np.int8), {"axis": 0, "block_size": 16}),
        ("MatMul", np.uint8, BLOCKS, ZEROS[:5].view(np.uint8)[:, None].repeat(64, 1), {"axis": 0, "block_size": 16}),
        ("MatMul", "int4", BLOCKS, None, {"axis": 0, "block_size": 16}),
        ("Transpose", "uint4", BLOCKS.T, np.arange(320).reshape(64, 5) % 16, {"axis": 1, "block_size": 16}),
        ("Gemm", "int4", COLUMNS, None, {"axis": 0}),
        ("Transpose", np.int8, COLUMNS, ZEROS, {"axis": 0}),
        ("Transpose", np.int8, BLOCKS.T, None, {"axis": 1, "block_size": 16}),
        ("Gemm", np.uint8, COLUMNS, ZEROS.view(np.uint8), {"axis": 0}),
        ("MatMulInteger", np.int8, np.float32(1), None, {}),
        ("MatMulInteger", np.int8, np.float32(1), np.int8(-3), {}),
        ("MatMulInteger", np.uint8, np.float32(1), np.uint8(120), {}),
    ],
)
def test_matrices_of_ints_stay_ints(
    tmp_path: Path, kind: str, dtype: Any, scale: Any, zero: Any, settings: dict[str, int]
) -> None:
    """In memory and in plans, whatever their scales and zero points; the products are those of float64."""
    random = np.random.default_rng(1)
    bits = 4 if isinstance(dtype, str) else 8
    stored = np.dtype(getattr(import_module("ml_dtypes"), dtype)) if bits == 4 else dtype
    levels = random.integers(0, 2**bits, (80, 64)).astype(np.uint8).view(stored)
    zero = None if zero is None else np.asarray(zero).astype(stored)
    rows = kind in ("Transpose", "Gemm")
    held_arrays = [held("w", levels.T if rows else levels), held("s", scale)]
    held_arrays += [] if zero is None else [held("z", zero)]
    given = ["w", "s"] + ["z"] * (zero is not None)
    if kind == "MatMulInteger":
        nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "a", "b"]),
                 node(kind, ["q", "w", "b", *given[2:]], ["p"]), node("Cast", ["p"], ["y"], to=FLOAT)]  # fmt: skip
    else:
        nodes = [node("DequantizeLinear", given, ["f"], **settings)]
        nodes += [node("Transpose", ["f"], ["t"], perm=[1, 0])] * (kind == "Transpose")
        nodes += [node("Gemm", ["x", "f", "c"], ["y"], transB=1) if kind == "Gemm"
                  else node("MatMul", ["x", "t" if rows else "f"], ["y"])]  # fmt: skip
    bias = random.normal(size=64).astype(np.float32)
    whole = graph(nodes, [info("x", FLOAT, ["n", 80])], [info("y", FLOAT, ["n", 64])],
                  initializer=held_arrays + [held("c", bias)] * (kind == "Gemm"))  # fmt: skip
    path = written(tmp_path / "a.onnx", whole, 21)
    wide = (scale if np.ndim(scale) < 2 else (scale.T if rows else scale).repeat(16, 0)) * (
        levels.astype(np.float64)
        - np.asarray(0 if zero is None else zero.T if rows and zero.ndim > 1 else zero, np.float64).repeat(
            16 if np.ndim(zero) > 1 else 1, 0
        )
    )
    for count in (1, 30):
        x = random.normal(size=(count, 80)).astype(np.float32)
        model, step = onnx.load(path, NumPy), burnpy.compiled(onnx.load(path, NumPy))
        expected = x @ wide + (bias if kind == "Gemm" else 0)
        if kind == "MatMulInteger":
            most, least = max(x.max(), 0), min(x.min(), 0)
            unit = np.float32(most - least) / np.float32(255)
            expected = np.round(x / unit).clip(np.round(least / unit), np.round(most / unit)) @ wide
        for out in (model(tensor(x)), step(tensor(x))):
            np.testing.assert_allclose(out.to_numpy(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
        names = operations(step.explain(tensor(x)))
        assert ("integer_matmul" if kind == "MatMulInteger" else "quantized_matmul") in names
        assert names.count("integer_matmul") <= 1 + (zero is not None)
        sizes = [value.numel() * value.dtype.itemsize for value in model.graph.constants.values()]
        assert max(sizes) == levels.size * bits // 8


@pytest.mark.parametrize(
    ("kind", "zero"),
    [
        (kind, zero)
        for kind in ("MatMul", "QLinearMatMul", "MatMulInteger")
        for zero in (None, np.int8(0), np.int8(-3), ZEROS)
        if kind != "QLinearMatMul" or zero is not None  # which has a zero point
    ],
)
def test_products_of_quantized_numbers_are_exact_for_any_length(tmp_path: Path, kind: str, zero: Any) -> None:
    """As onnxruntime's, beyond what float32 holds exactly. The dequantized numbers may be read by other nodes, too."""
    random = np.random.default_rng(3)
    matrix = random.integers(90, 128, (5000, 64)).astype(np.int8)
    scales = COLUMNS if np.ndim(zero) else COLUMNS[0]
    parts = [held("w", matrix), held("s", scales), held("a", np.float32(0.02)), held("b", np.uint8(7))]
    parts += [held("c", np.float32(1.7)), *([] if zero is None else [held("z", zero)])]
    of_matrix = ["z"] * (zero is not None)
    nodes = [node("QuantizeLinear", ["x", "a", "b"], ["q"])]
    if kind == "MatMulInteger":
        nodes += [node(kind, ["q", "w", "b", *of_matrix], ["y"])]
    elif kind == "QLinearMatMul":
        nodes += [node(kind, ["q", "a", "b", "w", "s", "z", "c", "b"], ["y"])]
    else:
        nodes += [
            node("DequantizeLinear", ["q", "a", "b"], ["f"]),
            node("DequantizeLinear", ["w", "s", *of_matrix], ["g"]),
        ]
        nodes += [node("MatMul", ["f", "g"], ["p"]), node("ReduceSum", ["f"], ["r"]), node("Add", ["p", "r"], ["y"])]
    number = {"MatMulInteger": 6, "QLinearMatMul": 2, "MatMul": FLOAT}[kind]
    whole = graph(nodes, [info("x", FLOAT, [3, 5000])], [info("y", number)], initializer=parts)
    path = written(tmp_path / "a.onnx", whole, 13)
    x = random.uniform(3, 5, (3, 5000)).astype(np.float32)
    levels = np.round(x / np.float32(0.02)).clip(-7, 248).astype(np.float64)
    exact = levels @ (matrix - np.float64(0 if zero is None else zero))
    model = agree(path, x) if kind == "MatMul" else onnx.load(path, NumPy)
    step = burnpy.compiled(model)
    for found in (model(tensor(x)), step(tensor(x))):
        if kind == "MatMulInteger":
            np.testing.assert_array_equal(found.to_numpy(), exact)
        elif kind == "MatMul":
            wanted = exact * (np.float32(0.02) * scales) + (levels * np.float32(0.02)).sum()
            np.testing.assert_allclose(found.to_numpy(), wanted, rtol=2e-6)
        else:
            wanted = (np.round(exact * (np.float32(0.02) * scales) / np.float32(1.7)) + 7).clip(0, 255)
            assert abs(found.to_numpy() - wanted).max() <= 1
    names = operations(step.explain(tensor(x)))
    assert names.count("integer_matmul") == 1 + bool(
        np.any(zero if zero is not None else 0)
    )  # once for the zero points


@pytest.mark.parametrize(
    ("shape", "kernel", "settings"),
    [
        ((2, 40, 9, 8), (32, 40, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((1, 40, 9, 8), (32, 40, 3, 2), {"dilations": [2, 3]}),
        ((1, 40, 9, 8), (32, 40, 3, 2), {"strides": [2, 3], "auto_pad": "SAME_UPPER"}),
        ((3, 400, 4, 4), (32, 400, 1, 1), {}),
        ((2, 16, 30), (64, 16, 5), {"pads": [4, 0]}),
        ((2, 8, 5, 4, 6), (32, 8, 2, 2, 3), {"pads": [1, 1, 1, 1, 1, 1]}),
        ((2, 32, 9, 8), (96, 8, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}),
        ((2, 32, 9, 8), (64, 1, 3, 3), {"pads": [0, 0, 1, 1], "strides": [2, 2], "group": 32}),
        ((1, 120, 5, 4), (40, 60, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    ],
)
@pytest.mark.parametrize("zero", [None, 0, 3])
@pytest.mark.parametrize("kind", ["Conv", "ConvInteger"])
def test_convolutions_of_quantized_numbers_are_products_of_ints(
    tmp_path: Path, kind: str, zero: int | None, shape: Any, kernel: Any, settings: dict[str, Any]
) -> None:
    """As onnxruntime's: padding has the zero point, scales and zero points are one for each channel or for all."""
    random = np.random.default_rng(3)
    count = kernel[0]
    scales = random.uniform(1e-5, 2e-5, count).astype(np.float32) if zero else np.float32(1e-5)
    zeros = np.full(count if kind == "Conv" and zero else (), zero or 0, np.int8)
    parts = [held("w", random.integers(-128, 128, kernel).astype(np.int8)), held("s", scales)]
    parts += [held("a", np.float32(0.02)), held("b", np.uint8(99)), held("z", zeros)]
    parts += [held("c", random.normal(size=count).astype(np.float32))]
    of_weights = ["z"] * (zero is not None)
    nodes = [node("QuantizeLinear", ["x", "a", "b"], ["q"])]
    if kind == "Conv":
        nodes += [node("DequantizeLinear", ["q", "a", "b"], ["f"])]
        nodes += [node("DequantizeLinear", ["w", "s", *of_weights], ["g"], axis=0)]
        nodes += [node("Conv", ["f", "g"] + ["c"] * (zero == 3), ["y"], **settings)]
    else:
        nodes += [node("ConvInteger", ["q", "w", "b", *of_weights], ["y"], **settings)]
    whole = graph(nodes, [info("x", FLOAT, shape)], [info("y", FLOAT if kind == "Conv" else 6)], initializer=parts)
    x = random.normal(size=shape).astype(np.float32)
    model = agree(written(tmp_path / "a.onnx", whole, 13), x)
    step = burnpy.compiled(model)
    step(tensor(x))
    plan, groups = step.explain(tensor(x)), settings.get("group", 1)
    names = operations(plan)
    exact = groups > 1 and np.prod(kernel[1:]) * 255**2 <= 2**24
    assert names.count("integer_conv") == (0 if exact else groups)  # with the sums for zeros of weights
    assert ("conv2d" in str(plan)) == exact, "floats hold sums of few products"


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("bias", ["none", "ints", "scaled otherwise", "floats", "read twice"])
def test_a_rounded_convolution_is_one_of_ints_with_their_bias(tmp_path: Path, bias: str, groups: int) -> None:
    """As onnxruntime computes it: the sums with the bias are rounded, and not the floats that they stand for."""
    random = np.random.default_rng(5)
    scales = random.uniform(0.001, 0.002, 8).astype(np.float32)
    parts = [held("a", np.float32(0.02)), held("z", np.uint8(99)), held("s", scales)]
    parts += [
        held("w", random.integers(-128, 128, (8, 8 // groups, 3, 3)).astype(np.int8)),
        held("r", np.float32(0.05)),
    ]
    parts += [held("o", np.uint8(120)), held("c", random.integers(-9000, 9000, 8).astype(np.int32))]
    parts += [held("t", scales * np.float32(0.04 if bias == "scaled otherwise" else 0.02))]
    parts += [held("e", random.normal(size=8).astype(np.float32))]
    given = {"none": [], "floats": ["e"]}.get(bias, ["d"])
    nodes = [node("QuantizeLinear", ["x", "a", "z"], ["q"]), node("DequantizeLinear", ["q", "a", "z"], ["f"])]
    nodes += [node("DequantizeLinear", ["w", "s"], ["g"], axis=0), node("DequantizeLinear", ["c", "t"], ["d"], axis=0)]
    nodes += [node("Conv", ["f", "g", *given], ["h"], pads=[1, 1, 1, 1], group=groups)]
    nodes += [node("QuantizeLinear", ["h", "r", "o"], ["i"]), node("DequantizeLinear", ["i", "r", "o"], ["j"])]
    nodes += [node("Sigmoid", ["j"], ["k"]), node("Add", ["k", "h" if bias == "read twice" else "k"], ["y"])]
    whole = graph(nodes, [info("x", FLOAT, [1, 8, 9, 7])], [info("y", FLOAT)], initializer=parts)
    model = agree(written(tmp_path / "a.onnx", whole, 21), random.normal(size=(1, 8, 9, 7)).astype(np.float32))
    assert ("QLinearConv" in [entry.kind for entry in model.graph.nodes]) == (bias in ("none", "ints"))


def test_weights_of_convolutions_stay_ints(tmp_path: Path) -> None:
    """A plan makes floats of them in each replay, right before the convolution; and values go after their last use."""
    random = np.random.default_rng(1)
    levels = random.integers(-128, 128, (64, 64, 3, 3)).astype(np.int8)
    nodes = [node("DequantizeLinear", [f"w{k}", "s"], [f"f{k}"]) for k in range(3)]
    nodes += [node("Conv", [f"y{k}", f"f{k}"], [f"y{k + 1}"], pads=[1, 1, 1, 1]) for k in range(3)]
    held_arrays = [held("s", np.float32(0.001)), *[held(f"w{k}", levels + k) for k in range(3)]]
    whole = graph(nodes, [info("y0", FLOAT, [1, 64, 4, 4])], [info("y3", FLOAT)], initializer=held_arrays)
    model = agree(written(tmp_path / "a.onnx", whole, 21), random.normal(size=(1, 64, 4, 4)).astype(np.float32))
    assert [entry.kind for entry in model.graph.nodes] == ["DequantizeLinear", "Conv"] * 3
    assert [sorted(names) for names in model.graph.unread] == [[], ["f0"], [], ["f1", "y1"], [], ["f2", "y2"]]
    step = burnpy.compiled(model)
    step(tensor(np.ones((1, 64, 4, 4), np.float32)))
    plan = step.explain(tensor(np.ones((1, 64, 4, 4), np.float32)))
    assert [part.operations for part in plan.programs] == [("to_float", "mul")] * 3
    assert plan.bytes < 2.5 * levels.size * 4


def test_operators_that_are_not_read_say_why(tmp_path: Path) -> None:
    """One error lists operators of sequences, text and others."""
    kinds = ["SplitToSequence", "StringNormalizer", "OptionalGetElement", "Unheard"]
    whole = graph(
        [node(kind, ["x"], [f"y{k}"]) for k, kind in enumerate(kinds)], [info("x", FLOAT, [3])], [info("y3", FLOAT)]
    )
    with pytest.raises(LoadingError) as raised:
        onnx.load(written(tmp_path / "a.onnx", whole, 18), NumPy)
    for part in ("(y0) is of sequences, which", "(y1) is of strings, which", "(y2) is of optional", "(y3) is unknown"):
        assert part in str(raised.value)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("places", ["align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel"])
def test_resizing_by_scales_that_are_no_whole_numbers(tmp_path: Path, mode: str, places: str) -> None:
    """Sizes are whole, and quotients such as 3 / .6 and 1.5 / .6 are those of float32."""
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 9)).astype(np.float32)
    for scales in ((1.7, 2.3), (0.4, 0.6), (0.15, 0.2)):
        for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil") if mode == "nearest" else ("",):
            settings = {"nearest_mode": rounding} if rounding else {}
            resize = node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=places, **settings)
            kept = [held("s", np.array([1, 1, *scales], np.float32))]
            whole = graph([resize], [info("x", FLOAT, x.shape)], [info("y", FLOAT)], initializer=kept)
            agree(written(tmp_path / "a.onnx", whole, 18), x, loops=False)


NEAREST = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
]


@pytest.mark.parametrize(
    "settings", [{}, {"coordinate_transformation_mode": "align_corners"}, {"mode": "cubic"}, *NEAREST]
)
def test_images_are_resized_to_the_size_of_others_when_written_again(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Interpolation as PyTorch's is an operation of its own, for which no size is fixed."""
    import onnxruntime

    parts = [held("two", np.array([2])), held("four", np.array([4])), held("zero", np.array([0]))]
    nodes = [node("Shape", ["x"], ["s"]), node("Shape", ["z"], ["t"]), node("Slice", ["s", "zero", "two"], ["a"])]
    nodes += [node("Slice", ["t", "two", "four"], ["b"]), node("Concat", ["a", "b"], ["sizes"], axis=0)]
    nodes += [node("Resize", ["x", "", "", "sizes"], ["y"], **{"mode": "linear", **settings})]
    inputs = [info("x", FLOAT, [1, 2, "h", "w"]), info("z", FLOAT, [1, 2, "H", "W"])]
    path = written(tmp_path / "a.onnx", graph(nodes, inputs, [info("y", FLOAT)], initializer=parts), 18)
    random = np.random.default_rng(0)
    first, second = (
        [random.uniform(1, 2, (1, 2, *size)).astype(np.float32) for size in sizes]
        for sizes in (((5, 6), (9, 7)), ((8, 3), (4, 11)))
    )
    model = agree(path, *first)
    again, dynamic = tmp_path / "dynamic.onnx", {"x": {2: "h", 3: "w"}, "z": {2: "H", 3: "W"}}
    onnx.export(model, tuple(map(tensor, first)), again, dynamic=dynamic)
    (found,) = onnxruntime.InferenceSession(again).run(None, dict(zip(("x", "z"), second, strict=True)))
    np.testing.assert_allclose(found, agree(path, *second)(*map(tensor, second)).to_numpy(), rtol=1e-5, atol=1e-6)


IMAGES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "mean": ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 1, 0]}, []),
    "padded mean": ("AveragePool", {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "count_include_pad": 1}, []),
    "norm": ("LpPool", {"kernel_shape": [3, 3], "strides": [2, 2], "p": 2}, []),
    "convolution": ("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, [np.ones((1, 2, 3, 3), np.float32)]),
    "cubic": ("Resize", {"mode": "cubic", "cubic_coeff_a": -0.5}, [None, np.float32([1, 1, 1.5, 2])]),
    "size": ("Resize", {"nearest_mode": "ceil"}, [None, None, np.array([1, 2, 7, 7])]),
    "cut": ("CenterCropPad", {"axes": [2, 3]}, [np.array([5, 6])]),
}
"""Operators, attributes and further inputs whose padding, places or cuts follow from sizes."""


@pytest.mark.parametrize("name", IMAGES)
def test_nodes_that_follow_from_sizes_are_written_as_they_were(tmp_path: Path, name: str) -> None:
    kind, settings, rest = IMAGES[name]
    names = ["" if x is None else f"w{k}" for k, x in enumerate(rest)]
    given = [held(key, x) for key, x in zip(names, rest, strict=True) if x is not None]
    inner = graph(
        [node(kind, ["x", *names], ["y"], **settings)],
        [info("x", FLOAT, [1, 2, "h", "w"])],
        [info("y", FLOAT)],
        initializer=given,
    )
    path = written(tmp_path / "a.onnx", inner, 18)
    agree(path, np.random.default_rng(0).normal(size=(1, 2, 6, 7)).astype(np.float32))
    sizes_agree(path, [(1, 2, 6, 7), (1, 2, 5, 9), (1, 2, 12, 8)], {"x": {2: "h", 3: "w"}})


def test_places_of_maxima_are_written_for_all_sizes(tmp_path: Path) -> None:
    pool = node("MaxPool", ["x"], ["y", "at"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
    inner = graph([pool], [info("x", FLOAT, [1, 2, "h", "w"])], [info("y", FLOAT), info("at", INT)])
    path = written(tmp_path / "a.onnx", inner, 18)
    sizes_agree(path, [(1, 2, 6, 7), (1, 2, 5, 9)], {"x": {2: "h", 3: "w"}})


def test_results_whose_number_depends_on_values_are_written_again(tmp_path: Path) -> None:
    """Infer sizes of results that depend on the sizes of inputs: no box, one or many, and each of two masks."""
    import onnxruntime

    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["places"], axis=1),
        node("Squeeze", ["boxes", "zero"], ["rows"]),
        node("Gather", ["rows", "places"], ["kept"]),
        node("Shape", ["kept"], ["shape"]),
        node("Expand", ["one", "shape"], ["ones"]),
        node("Add", ["kept", "ones"], ["y"]),
        node("Greater", ["scores", "least"], ["mask"]),
        node("NonZero", ["mask"], ["at"]),
        node("Squeeze", ["scores"], ["flat"]),
        node("Compress", ["flat", "high"], ["best"]),
        node("Unique", ["classes"], ["kinds", "first", "inverse", "counts"]),
        node("Less", ["flat", "least"], ["low"]),
        node("Not", ["low"], ["high"]),
    ]
    constants = [held("most", 9), held("overlap", np.float32([0.5])), held("least", np.float32([0.4]))]
    constants += [held("two", 2), held("zero", [0]), held("one", np.float32(1.0))]
    inputs = [info("boxes", FLOAT, [1, "n", 4]), info("scores", FLOAT, [1, 1, "n"]), info("classes", INT, ["n"])]
    results = [info(k, FLOAT if k in ("y", "best") else INT) for k in ("y", "at", "best", "kinds", "inverse", "counts")]
    path = written(tmp_path / "a.onnx", graph(nodes, inputs, results, initializer=constants), 18)

    def given(n: int, scale: float) -> tuple[Any, ...]:
        generator = np.random.default_rng(n)
        corners = generator.random((1, n, 2))
        boxes = np.concatenate([corners, corners + generator.random((1, n, 2))], axis=2)
        scores = generator.random((1, 1, n)) * scale
        return boxes.astype(np.float32), scores.astype(np.float32), generator.integers(0, 4, n)

    model = onnx.load(path, NumPy)
    dynamic = {"boxes": {1: "n"}, "scores": {2: "n"}, "classes": {0: "n"}}
    onnx.export(model, tuple(map(tensor, given(8, 1.0))), again := tmp_path / "again.onnx", dynamic=dynamic)
    for n, scale in ((8, 1.0), (20, 2.0), (3, 0.1), (1, 1.0)):
        feed = dict(zip(["boxes", "scores", "classes"], given(n, scale), strict=True))
        expected, found = [onnxruntime.InferenceSession(each).run(None, feed) for each in (path, again)]
        own = [x.to_numpy() for x in model(*map(tensor, given(n, scale)))]
        for x, y, z in zip(expected, found, own, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-6)
            np.testing.assert_allclose(z, x, rtol=1e-6)
    with pytest.raises(RecordingError, match="NonMaxSuppression"):
        burnpy.compiled(model)(*map(tensor, given(8, 1.0)))


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool", "LpPool"])
def test_windows_larger_than_the_image(tmp_path: Path, kind: str) -> None:
    """With ceil_mode, as EfficientNet of transformers pools: by a window of 1,280, without memory for one."""
    x = np.random.default_rng(0).normal(size=(1, 1280, 7, 7)).astype(np.float32)
    settings: dict[str, Any] = {"kernel_shape": [12800, 1280], "strides": [12800, 1280], "ceil_mode": 1}
    for pads in ([0, 0, 0, 0], [1, 0, 1, 2]):
        pool = node(kind, ["x"], ["y"], pads=pads, **settings)
        whole = graph([pool], [info("x", FLOAT, x.shape)], [info("y", FLOAT)])
        agree(written(tmp_path / "a.onnx", whole, 19 if kind == "AveragePool" else 18), x)


def test_nodes_in_any_order(tmp_path: Path) -> None:
    """As onnxruntime's conversion to 16 bits writes them, whose casts are last; a branch reads a later node, too."""
    then = graph([node("Add", ["x", "b"], ["t"])], [], [info("t", FLOAT)])
    other = graph([node("Neg", ["x"], ["e"])], [], [info("e", FLOAT)])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other), node("Greater", ["s", "z"], ["c"])]
    nodes += [node("ReduceSum", ["b"], ["s"], keepdims=0), node("Mul", ["x", "x"], ["b"])]
    nodes += [node("Constant", [], ["z"], value_float=1.0)]
    whole = graph(nodes, [info("x", FLOAT, [3, 4])], [info("y", FLOAT, [3, 4])])
    for x in (X, X * 0):
        agree(written(tmp_path / "a.onnx", whole, 18), x)
    whole = graph([node("Neg", ["b"], ["a"]), node("Neg", ["a"], ["b"])], [], [info("b", FLOAT)])
    with pytest.raises(LoadingError, match=r"the input 'b' of Neg \(a\) depends on the node's result"):
        onnx.load(written(tmp_path / "b.onnx", whole, 18), NumPy)


@pytest.mark.parametrize("number", [1, 11])
def test_ints_become_floats_with_one_rounding(tmp_path: Path, number: int) -> None:
    x = np.array([2**53 - 1, 2**31 + 1, 2**24 + 1, -(2**60) - 1, 2049, 4099])
    whole = graph([node("Cast", ["x"], ["y"], to=number)], [info("x", INT, [6])], [info("y", number, [6])])
    path = written(tmp_path / "a.onnx", whole, 18)
    wanted = x.astype({1: np.float32, 11: np.float64}[number])
    np.testing.assert_array_equal(onnx.load(path, NumPy)(tensor(x)).to_numpy(), wanted)


def test_names_that_have_one_path_and_text(tmp_path: Path) -> None:
    """Each of the parameters has its own values; text that nothing reads is left out."""
    names = ["a.b", "a", "a.b.c", "a_b", "A.B", "a..b", "a_b_2"]
    held_arrays = [held(name, np.full(4, 10.0**k, np.float32)) for k, name in enumerate(names)]
    nodes = [node("Add", [f"v{k}", name], [f"v{k + 1}"]) for k, name in enumerate(names)]
    text = package().helper.make_tensor("labels", 8, [2], [b"a", b"b"])
    whole = graph(nodes, [info("v0", FLOAT, ["n", 4])], [info(f"v{len(names)}", FLOAT)])
    whole.initializer.extend([*held_arrays, text])
    model = agree(written(tmp_path / "a.onnx", whole, 20), np.zeros((2, 4), np.float32))
    assert len(model.named_params()) == len(names)
    read = graph([node("Identity", ["labels"], ["y"])], [], [info("y", 8)], initializer=[text])
    with pytest.raises(LoadingError, match=r"Identity \(y\) reads 'labels', which is text"):
        onnx.load(written(tmp_path / "b.onnx", read, 20), NumPy)
    given = graph([node("Abs", ["x"], ["y"])], [info("x", FLOAT, [2])], [info("y", FLOAT), info("labels", 8)])
    given.initializer.append(text)
    with pytest.raises(LoadingError, match="the output 'labels' is text"):
        onnx.load(written(tmp_path / "c.onnx", given, 20), NumPy)


@pytest.mark.parametrize(("name", "levels"), [("INT4", (-8, 8)), ("UINT4", (0, 16)), ("UINT2", (0, 4))])
def test_small_ints_in_another_file(tmp_path: Path, name: str, levels: tuple[int, int]) -> None:
    """Several lie in a byte, there as in the file itself."""
    ints = np.arange(3 * 7).reshape(3, 7) % (levels[1] - levels[0]) + levels[0]
    number = getattr(package().TensorProto, name)
    held_ints = package().helper.make_tensor("w", number, ints.shape, ints.reshape(-1).tolist())
    raw = bytes(held_ints.int32_data) if held_ints.int32_data else held_ints.raw_data
    packed = package().TensorProto(name="w", data_type=number, dims=ints.shape, raw_data=raw)
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    whole = graph(
        nodes, [info("x", FLOAT, ["n", 3])], [info("y", FLOAT)], initializer=[packed, held("s", np.float32(0.5))]
    )
    x = np.eye(3, dtype=np.float32)
    path = written(tmp_path / "a.onnx", whole, 25 if name == "UINT2" else 21)
    package().save(package().load(path), tmp_path / "b.onnx", save_as_external_data=True, size_threshold=0)
    for found in (path, tmp_path / "b.onnx"):
        np.testing.assert_array_equal(onnx.load(found, NumPy)(tensor(x)).to_numpy(), ints * 0.5)


def test_results_of_a_normalization_that_are_named(tmp_path: Path) -> None:
    """The source has as many names as the node, which may name the mean alone."""
    for count in (1, 2, 3):
        names = ["y", "mean", "inverse"][:count]
        whole = graph(
            [node("LayerNormalization", ["x", "s"], names)], [info("x", FLOAT, [3, 4])], [info(n, FLOAT) for n in names]
        )
        whole.initializer.append(held("s", np.arange(1, 5, dtype=np.float32)))
        agree(written(tmp_path / "a.onnx", whole, 17), X)
