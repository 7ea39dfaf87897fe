"""Every operation has a rule, examples, and a public method or function: what is missing is named with its file.

An operation reaches users by its own name, as a method of the tensors of its kinds or as a function; by an expression
of `REACHED`; or not at all, for a reason that `INTERNAL` gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import burnpy
from burnpy import fft, linalg, nn, optim, special
from burnpy.backend import Algebra, NumPy, Operation, Profiled, operations
from burnpy.backend.primitives import KINDS
from burnpy.nn import functional
from burnpy.tensor.tensor_base import TensorBase
from tests.rows import every_row

BY_DEFAULT = {
    "run": "its default executes a program with operations that have rules",
    "gamma_quantile_slope": "its default is a quadrature, whose derivatives follow from its operations",
    "beta_quantile_slope": "its default is a quadrature, whose derivatives follow from its operations",
    "foreach_add": "its default adds each, and gradients are rarely differentiated",
    "foreach_cast": "its default converts each, and gradients are rarely differentiated",
    "foreach_clamp": "its default clamps each, and gradients are rarely differentiated",
    "foreach_div": "its default divides each, and gradients are rarely differentiated",
    "foreach_lerp": "its default interpolates each, and gradients are rarely differentiated",
    "foreach_mul": "its default multiplies each, and gradients are rarely differentiated",
    "foreach_norm": "its default is the vector_norm of each",
    "foreach_where": "its default selects each, and gradients are rarely differentiated",
    "total_norm": "its default is the vector_norm of norms",
    "cummax": "its default gathers at the index, whose rule keeps no more",
    "cummin": "its default gathers at the index, whose rule keeps no more",
    "frame_spectra": "its default transforms weighted frames, whose rules keep no more",
    "kthvalue": "its default gathers at the index, whose rule keeps no more",
    "sort": "its default gathers at the index, whose rule keeps no more",
    "topk": "its default gathers at the index, whose rule keeps no more",
    "max_dim": "its default gathers at the index, whose rule keeps no more",
    "min_dim": "its default gathers at the index, whose rule keeps no more",
    "accumulate": "its default is add",
    "complex_abs": "its default is hypot of the parts, whose derivatives at 0 are 0",
    "angle": "its default is atan2 of the parts",
    "eigvals": "its default is eig, whose vectors its derivative needs",
    "eigvalsh": "its default is eigh, whose vectors its derivative needs",
    "svdvals": "its default is svd, whose vectors its derivative needs",
    "accumulate_slice": "its default is slice_scatter of a sum",
    "accumulate_index": "its default is index_add",
}
"""Differentiable operations without a rule, apart from those that end in _backward, of second derivatives."""

REACHED = {
    "adaptive_max_pool2d_indices": "functional.adaptive_max_pool2d(image, 1)",
    "adopt_numpy": "Tensor[Counted].from_data(x.to_numpy(), copy=False)",
    "attention": "functional.scaled_dot_product_attention(image, image, image)",
    "cast": "x.to_dtype('float64')",
    "pivot_order": "linalg.lu_solve(*linalg.lu_factor(x @ x.mT), x)",
    "cholesky_info": "linalg.cholesky_ex(-x @ x.mT)",
    "clamp_between": "x.clamp(x, x)",
    "complex_abs": "x.complex().abs()",
    "conv2d_bias": "functional.conv2d(image, image[:, :, :1, :1], x[0, :1])",
    "conv3d_bias": "functional.conv3d(image.unsqueeze(2), image[:, :, :1, :1].unsqueeze(2), x[0, :1])",
    "sum_rows": "functional.embedding_bag(x.argsort(0), x, mode='sum')",
    "foreach_add": "grads + grads",
    "foreach_cast": "step(optim.Sgd(master_weights=True), 'bfloat16')",
    "foreach_clamp": "optim.clip_by_value(grads, 1.0)",
    "foreach_div": "grads / 2.0",
    "foreach_lerp": "optim.Ema(model).update(model)",
    "foreach_mul": "grads * 2.0",
    "foreach_norm": "optim.clip_by_norm(grads, 1.0)",
    "fft_real": "fft.fft(x)",
    "frame_spectra": "fft.stft(x, 2, window=x[0, :2])",
    "frames": "x.unfold(1, 2, 1)",
    "from_numpy": "Tensor[Counted].from_data([[1.0]])",
    "gru": "nn.Gru(3, 2, device=Counted)(x.unsqueeze(0))",
    "index_put": "x.at[i].set(x[i])",
    "lstm": "nn.Lstm(3, 2, device=Counted)(x.unsqueeze(0))",
    "masked_scale": "functional.dropout(x, 0.5)",
    "max_dim": "x.max(1)",
    "max_pool2d_indices": "functional.max_pool2d(image, 2, return_indices=True)",
    "mean_cross_entropy": "functional.cross_entropy(x, i[:2])",
    "min_dim": "x.min(1)",
    "overlap_add": "fft.istft(fft.stft(x, 2), 2)",
    "pad_ends": "functional.pad(x, (1, 1), mode='reflect')",
    "quantized_matmul": "functional.quantized_linear(x, *functional.quantize(x.mT))",
    "random_binomial": "Tensor[Counted].binomial((2,), 3, 0.5)",
    "random_exponential": "Tensor[Counted].exponential((2,))",
    "random_gamma": "Tensor[Counted].gamma((2,), 2.0)",
    "random_integers": "IntTensor[Counted].randint(0, 9, (2,))",
    "random_log_dirichlet": "Tensor[Counted].dirichlet((2, 3), 2.0)",
    "random_logit_beta": "Tensor[Counted].beta((2,), 2.0, 3.0)",
    "random_mask": "functional.dropout(x, 0.5)",
    "random_normal": "Tensor[Counted].normal((2,))",
    "random_permutation": "IntTensor[Counted].permutation(3)",
    "random_poisson": "Tensor[Counted].poisson((2,), 3.0)",
    "random_uniform": "Tensor[Counted].uniform((2,))",
    "resample": "functional.interpolate(image, 3)",
    "rnn": "nn.Rnn(3, 2, device=Counted)(x.unsqueeze(0))",
    "slice": "x[0]",
    "squared_difference": "functional.mse_loss(x, x)",
    "to_bool": "x.bool()",
    "to_float": "i.float()",
    "to_int": "x.int()",
    "total_norm": "grads.norm()",
    "weighted_gather": "functional.grid_sample(image, image)",
}
"""How users reach operations that have no method or function of their own name."""

INTERNAL = {
    "run": "executes the programs of backends and of decorators",
    "accumulate": "the backward pass adds up gradients",
    "accumulate_index": "the backward pass adds the gradient of an index into a total",
    "accumulate_slice": "the backward pass adds the gradient of a slice into a total",
    "adjugate": "the gradient of det",
    "bessel_ratio": "the derivatives of i0 and i1",
    "bounded": "the check of indices on devices that would have to wait for them",
    "center": "the rules of var and std",
    "conv2d_input": "the gradient of conv2d with respect to its input",
    "conv2d_weight": "the gradient of conv2d with respect to its weight",
    "dot_rows": "the gradient of sum_rows with respect to its factors",
    "conv3d_input": "the gradient of conv3d with respect to its input",
    "conv3d_weight": "the gradient of conv3d with respect to its weight",
    "cummax_index": "the indices of cummax",
    "cummin_index": "the indices of cummin",
    "kthvalue_index": "the index of kthvalue",
    "topk_index": "the indices of topk",
    "erfcx_slope": "the gradient of erfcx",
    "foreach_where": "an optimizer's step, of gradients that may have overflowed",
    "integer_conv": "the convolutions of quantized ONNX files",
    "gathered_products": "the gradient of weighted_gather with respect to its weights",
    "masked_mean": "the mean of losses with ignored elements; a check for them would wait for the device",
    "average_update": "the running statistics of batch norm",
    "batch_totals": "the updates of batch norm's running statistics",
    "count_update": "the number of batches that batch norm has seen",
    "gamma_quantile_slope": "the gradient of random numbers of the gamma distribution",
    "beta_quantile_slope": "the gradient of random numbers of the beta and Dirichlet distribution",
    "betainc_density": "the gradient of betainc with respect to x",
    "igamma_density": "the gradient of igamma with respect to its second operand",
    "igamma_slope": "the gradient of igamma with respect to its first operand",
    "index_order": "the rules of operations that write at indices",
    "matmul_nt": "the gradient of matmul with respect to its first operand",
    "matmul_tn": "the gradient of matmul with respect to its second operand",
    "normal_ratio": "the gradient of log_ndtr",
    "recurrence": "the derivatives of cumprod and logcumsumexp",
    "reverse_cumsum": "the gradient of cumsum",
    "reverse_recurrence": "the gradients of cumprod and logcumsumexp",
    "weighted_scatter": "the gradient of weighted_gather with respect to x",
    "sum_to": "the gradient of an operand that was broadcast",
    "zeta_slope": "the gradient of zeta with respect to x",
}
"""What operations are for that users do not reach, apart from those that end in _backward."""

NOT_OF = {
    **{(name, "BoolTensor"): "true and false have no order" for name in ("lt", "le", "gt", "ge")},
    **{(name, "BoolTensor"): "comparisons of numbers give bools" for name in ("arange", "eye", "linspace")},
    ("arange", "ComplexTensor"): "they would go along a line",
    ("linspace", "IntTensor"): "the steps would be rounded",
}
"""The classes of tensors that lack a method although the operation takes their kind, and why."""

CLASSES: dict[str, Any] = {
    "float": burnpy.Tensor,
    "int": burnpy.IntTensor,
    "bool": burnpy.BoolTensor,
    "complex": burnpy.ComplexTensor,
}


def file_of(folder: str, op: Operation) -> str:
    """The file of a folder that has the operations of one file of declarations, or the file to make."""
    return f"{folder}/{op.function.__module__.rpartition('.')[2]}.py"


def file_of_examples(op: Operation) -> str:
    """The file of examples that has those of the operations that are declared beside one."""
    folder = Path(burnpy.__file__).parent / "testing" / "cases"
    beside = [f'("{o.name}"' for o in operations().values() if o.function.__module__ == op.function.__module__]
    counts = {p.name: sum(map(p.read_text(encoding="utf-8").count, beside)) for p in folder.glob("*.py")}
    return f"burnpy/testing/cases/{max(counts, key=lambda name: counts[name])}"


def test_every_operation_has_a_rule() -> None:
    from burnpy.autodiff.rule_table import RULES

    missing = [
        f"{op.name} has no rule: give it one in {file_of('burnpy/backend/operations', op)}"
        for op in operations().values()
        if op.algebra is not Algebra.NONDIFFERENTIABLE and op.float_arguments and any(op.float_results)
        if op.name not in RULES and op.name not in BY_DEFAULT and not op.name.endswith("_backward")
    ]
    assert not missing, "\n".join(["", *missing, "or say in BY_DEFAULT why its default is differentiated"])
    assert not BY_DEFAULT.keys() & RULES.keys()


def test_every_operation_has_a_way_to_be_batched() -> None:
    """By its declaration, by the class, or by its default; an operation that draws says so."""
    from burnpy.batching.batch_methods import batch_method

    for op in operations().values():
        if op.name != "to_numpy":  # which `Batched` has itself
            assert callable(batch_method(op.name))
        draws = any(a.name == "generator" for a in op.arguments)
        assert draws == (op.batch == "drawn"), f"{op.name}: batch=DRAWN is for operations that draw random numbers"


def test_every_operation_has_examples() -> None:
    from burnpy.testing.cases import PROPERTIES, ROWS

    missing = [
        f"{op.name} has no examples: give it a row in {file_of_examples(op)}"
        for op in operations().values()
        if op.name not in ROWS and op.name not in PROPERTIES
    ]
    assert not missing, "\n".join(["", *missing])


def public_classes(op: Operation) -> Iterator[Any]:
    """The classes of tensors that should have the operation as a method: those of the kinds of its first argument."""
    kinds = [a.kind for a in op.arguments if a.kind] or [kind for kind in op.results if kind]
    first = next((kind for kind in kinds if kind != "Bool"), "Bool")
    yield from (CLASSES[kind] for kind in KINDS[first])


def homes(op: Operation) -> str:
    """The files of the methods and functions whose operations are declared beside it, the most frequent first."""
    files: Counter[str] = Counter()
    for other in operations().values():
        if other.function.__module__ == op.function.__module__:
            module = next(
                (module for module in (functional, linalg, fft, special) if other.name in module.__all__), None
            )
            if module is not None:
                files[getattr(module, other.name).__module__] += 1
            elif other.arguments[:1] == op.arguments[:1]:
                for cls in public_classes(other):
                    for base in cls.__mro__[1:]:
                        if base is not TensorBase and other.name in vars(base):
                            files[getattr(vars(base)[other.name], "module", base.__module__)] += 1
    return " or ".join(f"{name.replace('.', '/')}.py" for name, _ in files.most_common(2)) or "burnpy/tensor"


def test_every_operation_is_public() -> None:
    missing = []
    for op in operations().values():
        listed = op.name in REACHED or op.name in INTERNAL or op.name.endswith("_backward")
        if listed or any(op.name in module.__all__ for module in (burnpy, functional, linalg, fft, special)):
            continue
        place = file_of("burnpy/backend/operations", op)
        declared = f"declare it with method=True in {place}, or " if op.elementwise and len(op.arguments) < 3 else ""
        missing += [
            f"{cls.__name__} has no {op.name}: {declared}give it a method in {homes(op)}"
            for cls in public_classes(op)
            if not hasattr(cls, op.name) and (op.name, cls.__name__) not in NOT_OF
        ]
    assert not missing, "\n".join(["", *missing, "or list it in REACHED, INTERNAL or NOT_OF"])


Counted = Profiled[NumPy]


def trained(dtype: str = "float32") -> tuple[Any, Any]:
    """A model and gradients of it."""
    model = nn.Linear(2, 1, device=burnpy.Autodiff[Counted]).astype(dtype)
    return model, model(burnpy.Tensor[burnpy.Autodiff[Counted]].ones((1, 2), dtype=dtype)).sum().backward()


def step(optimizer: Any, dtype: str = "float32") -> None:
    optimizer.step(0.1, *trained(dtype))


@every_row("name", REACHED)
def test_it_is_reached(name: str) -> None:
    model, grads = trained()
    names: dict[str, Any] = {
        "model": model,
        "grads": grads,
        "Tensor": burnpy.Tensor,
        "IntTensor": burnpy.IntTensor,
        "functional": functional,
        "nn": nn,
        "fft": fft,
        "linalg": linalg,
        "optim": optim,
        "Counted": Counted,
        "step": step,
        "x": burnpy.Tensor[Counted].ones((2, 3)),
        "i": burnpy.IntTensor[Counted].from_data([0, 1]),
        "image": burnpy.Tensor[Counted].ones((1, 1, 2, 2)),
    }
    with Profiled.record(lines=False) as profile:
        eval(REACHED[name], names)
    assert name in {row.operation for row in profile.rows()}, f"{REACHED[name]} does not call {name}"


def test_the_lists_have_no_more_than_they_need() -> None:
    names = {*BY_DEFAULT, *REACHED, *INTERNAL, *(name for name, _ in NOT_OF)}
    assert names <= operations().keys()
    assert not REACHED.keys() & INTERNAL.keys()
    for name in {*REACHED, *INTERNAL}:
        assert name not in functional.__all__
        assert name not in linalg.__all__
        assert name not in fft.__all__
        assert name not in special.__all__
        assert not any(hasattr(cls, name) for cls in CLASSES.values()), f"{name} is a method: it needs no entry"
    for name, cls in NOT_OF:
        assert not hasattr(getattr(burnpy, cls), name), f"{cls} has {name}"
