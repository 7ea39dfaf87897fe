"""Programs are traced from the defaults of operations, and say why where they cannot be."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from burnpy.autodiff import Autodiff
from burnpy.backend import Backend, Checked, NumPy
from burnpy.backend.dtypes import int64
from burnpy.backend.programs import Extent, Input, Program, ProgramError, trace
from burnpy.backend.programs.program import execute
from tests.rows import every_row

FULL, ROW, COLUMN = Input(Extent.FULL, "float64"), Input(Extent.ROW, "float64"), Input(Extent.COLUMN, "float64")
NUMBER = Input(Extent.SCALAR, "float64")
INDEX = Input(Extent.COLUMN, "int64")
D = NumPy()

OPERATIONS: list[tuple[str, tuple[Input, ...], tuple[Any, ...]]] = [
    ("relu", (FULL,), ()),
    ("gelu", (FULL,), (False,)),
    ("gelu", (FULL,), (True,)),
    ("gelu_backward", (FULL, FULL), (False,)),
    ("silu_backward", (FULL, FULL), ()),
    ("softplus", (FULL,), (2.0,)),
    ("clamp", (FULL,), (-0.5, 0.5)),
    ("softmax", (FULL,), (1,)),
    ("log_softmax", (FULL,), (1,)),
    ("log_softmax_backward", (FULL, FULL), (1,)),
    ("normalize", (FULL, ROW, ROW), ((1,), 0.1)),
    ("normalize_backward", (FULL, FULL, ROW, COLUMN, COLUMN), ((1,), 0.1)),
    ("rms_norm", (FULL, ROW), ((1,), 0.1)),
    ("cross_entropy", (FULL, INDEX), (1,)),
]


def arrays(inputs: tuple[Input, ...], rows: int, columns: int) -> list[Any]:
    generator = np.random.default_rng(rows)
    found: list[Any] = []
    for extent, dtype in inputs:
        shape = extent.shape(rows, columns)
        drawn = generator.uniform(0.2, 2.0, shape)
        found.append(generator.integers(0, columns, shape) if dtype == "int64" else drawn.astype(dtype))
    return found


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if type(found) is tuple else (found,)


@every_row("name, inputs, rest", OPERATIONS, ids=[f"{o[0]}-{k}" for k, o in enumerate(OPERATIONS)])
def test_a_program_computes_what_its_operation_does(
    name: str, inputs: tuple[Input, ...], rest: tuple[Any, ...]
) -> None:
    program = trace(getattr(Backend, name), inputs, *rest)
    assert program.name == name
    for rows, columns in ((3, 5), (1, 1), (300, 130)):
        xs = arrays(inputs, rows, columns)
        wanted = as_tuple(getattr(D, name)(*xs, *rest))
        found = execute(D, program, xs, ())
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.reshape(a.shape), rtol=1e-11, atol=1e-12)


def test_programs_are_values() -> None:
    program = trace(Backend.gelu, (FULL,), True)
    same = trace(Backend.gelu, (FULL,), True, name="another name")
    assert program == same
    assert hash(program) == hash(same)
    assert len({program, same, trace(Backend.gelu, (FULL,), False)}) == 2
    assert pickle.loads(pickle.dumps(program)) == program
    assert program != trace(Backend.gelu, (Input(Extent.FULL, "float32"),), True)
    assert program.elementwise
    assert not trace(Backend.softmax, (FULL,), 1).elementwise
    with pytest.raises(AttributeError):
        program.name = "other"  # type: ignore[misc]  # it is frozen


def test_constants_keep_their_sign_and_are_found_again() -> None:
    def f(b: Any, x: Any) -> Any:
        return b.add(b.div(x, 0.0), b.div(x, -0.0)), b.add(b.exp(x), b.exp(x))

    program = trace(f, (FULL,))
    constants = [i.value for i in program.instructions if i.op == "constant"]
    assert constants == ["0x0.0p+0", "-0x0.0p+0"]
    assert [i.op for i in program.instructions].count("exp") == 1


def test_positions_of_rows_and_columns() -> None:
    def lower(b: Any, x: Any) -> Any:
        rows = b.reshape(b.discrete.arange(0, x.shape[0], 1, int64), (x.shape[0], 1))
        return b.where(b.discrete.lt(b.discrete.arange(0, x.shape[1], 1, int64), rows), x, 0.0)

    program = trace(lower, (FULL,))
    assert [i.value for i in program.instructions if i.op == "index"] == [0, 1]
    x = np.ones((700, 90))
    for found in (execute(D, program, [x], ()), D.run(program, [x], ())):
        np.testing.assert_array_equal(found[0], np.tril(x, -1))
    with pytest.raises(ProgramError, match="no arange from 1 to 7, but of all rows or columns"):
        trace(lambda b, x: b.mul(x, b.cast(b.arange(1, x.shape[0], 1, int64), x.dtype)), (FULL,))


def test_what_depends_on_a_size_is_refused() -> None:
    def f(b: Any, x: Any) -> Any:
        return b.mul(x, 1.0 / x.shape[1])

    with pytest.raises(ProgramError, match="f computes with the number of rows or columns"):
        trace(f, (FULL,))


def test_what_programs_do_not_have_is_refused() -> None:
    with pytest.raises(ProgramError, match="no operation matmul"):
        trace(Backend.matmul, (FULL, FULL))
    with pytest.raises(ProgramError, match="no operation cumsum"):
        trace(Backend.cumsum, (FULL,), 1)
    with pytest.raises(ProgramError, match="do not broadcast"):
        trace(lambda b, x, y: b.add(x, b.reshape(y, (y.shape[0],))), (FULL, COLUMN))
    with pytest.raises(ProgramError, match="no values of shape"):
        trace(lambda b, x: b.reshape(x, (x.shape[1], x.shape[0])), (FULL,))


def test_inputs_that_do_not_fit_are_refused() -> None:
    program = trace(lambda b, x, w, s: b.mul(b.mul(x, w), s), (FULL, ROW, NUMBER), name="scaled")
    x, w = np.ones((2, 3)), np.ones(3)
    np.testing.assert_array_equal(D.run(program, [x, w], (2.0,))[0], np.full((2, 3), 2.0))
    with pytest.raises(ProgramError, match=r"takes \(rows, columns\), \(columns,\), a number, got \(2, 3\)"):
        D.run(program, [x, np.ones(4)], (2.0,))
    with pytest.raises(ProgramError, match="takes 2 primitives and 1 numbers, got 2 and 0"):
        D.run(program, [x, w], ())
    with pytest.raises(ProgramError, match="dtypes float64, float64, got float32"):
        D.run(program, [x.astype(np.float32), w], (1.0,))


def test_a_gather_out_of_range_is_refused() -> None:
    program = trace(lambda b, x, index: b.gather(x, 1, index), (FULL, INDEX), name="picked")
    for wrong in (5, -1):
        with pytest.raises(ProgramError, match="out of the range of its 5 columns"):
            D.run(program, [np.ones((2000, 5)), np.full((2000, 1), wrong)], ())


def test_run_is_differentiated_through_the_steps_of_the_program() -> None:
    program = trace(Backend.silu, (FULL,))
    on = Autodiff(NumPy())
    x = on.require_grad(on.from_numpy(np.linspace(-2, 2, 12).reshape(3, 4)))
    (out,) = on.run(program, [x], ())
    (gradient,) = on.gradients([(out, np.ones((3, 4)))], retain_graph=False).values()
    np.testing.assert_allclose(gradient, D.silu_backward(np.ones((3, 4)), x.value), rtol=1e-12)
    (constant,) = on.run(program, [on.from_numpy(np.ones((1, 2)))], ())
    assert constant.node is None


def test_decorators_see_run() -> None:
    program: Program = trace(Backend.silu, (FULL,))
    with pytest.raises(ArithmeticError, match=r"run\(\) on Checked\[NumPy\] gave NaN"):
        Checked(NumPy()).run(program, [np.full((2, 2), np.nan)], ())


def test_programs_of_several_passes_are_left_to_the_default() -> None:
    program = trace(lambda b, x: b.sub(x, b.mean(x, (0,), True)), (FULL,))
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(D.run(program, [x], ())[0], x - x.mean(0))


def test_explain_lists_kernels_with_their_code() -> None:
    from burnpy import Tensor
    from burnpy.backend import explain

    x = Tensor[NumPy].from_data(np.linspace(-1, 1, 8192).reshape(64, 128))
    found = explain(lambda v: v.softmax(dim=-1).softmax(dim=-1).sigmoid(), x)
    assert found.result.shape == (64, 128)
    pytest.importorskip("llvmlite")
    assert [kernel.program.name for kernel in found.kernels] == ["softmax", "sigmoid"]
    assert found.calls == (2, 1)
    assert str(found).startswith("softmax, 2 times:\n    %0 = input 0 : full float64\n    %1 = amax %0 1")
    assert "define void @kernel(" in found.code
    assert not explain(lambda: None).kernels

    def failing() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # the function's own
        explain(failing)
    assert str(explain(lambda v: v + v, x)) == "no kernel ran"
