"""PyTorch's and NumPy's names of the arguments of operations, and ours in their place."""

from __future__ import annotations

OURS: dict[str, tuple[str, ...]] = {
    "axis": ("dim", "dims"),
    "axes": ("dims", "dim"),
    "axis1": ("dim0",),
    "axis2": ("dim1",),
    "dims": ("dim",),
    "dim": ("dims",),
    "keepdims": ("keepdim",),
    "ddof": ("correction",),
    "ord": ("p",),
    "a_min": ("min",),
    "a_max": ("max",),
    "shift": ("shifts",),
    "size": ("shape",),
    "newshape": ("shape",),
    "fill_value": ("value",),
    "k": ("diagonal",),
    "offset": ("diagonal",),
    "stop": ("end",),
    "num": ("steps",),
    "n": ("rows",),
    "m": ("columns",),
    "indices": ("index",),
    "values": ("src", "value"),
    "source": ("src",),
    "split_size_or_sections": ("split_size",),
    "indices_or_sections": ("split_size", "chunks"),
    "sections": ("chunks",),
    "arrays": ("tensors",),
    "exponent": ("other",),
    "x2": ("other",),
    "y": ("other",),
    "x": ("input",),
    "input": ("x",),
    "mat2": ("other",),
    "is_causal": ("causal",),
    "attn_mask": ("mask",),
    "dropout_p": ("dropout",),
    "num_classes": ("classes",),
}
"""By their name: ours, of which the first that is taken is meant."""

SENTENCES: dict[str, str] = {
    "unbiased": "correction=1 is unbiased=True, and correction=0 unbiased=False",
    "inplace": "nothing is changed in place",
    "out": "what comes out is a new tensor",
    "requires_grad": "call .require_grad() of what comes out",
    "device": "call .to_device(device) of what comes out",
    "dtype": "call .to_dtype(dtype) of what comes out",
    "size_average": 'it is reduction="mean", "sum" or "none"',
    "reduce": 'it is reduction="mean", "sum" or "none"',
    "stable": "the order of what is equal is kept",
    "non_blocking": "what comes out is there when it is asked for",
    **dict.fromkeys(
        ("layout", "memory_format", "pin_memory", "order", "strides"),
        "how elements lie in memory is the backend's affair",
    ),
}
"""By their name: what to say of one that is not taken under another name either."""

MISSING = "(missing)"
"""What is said of arguments that were not given stands under this name."""

_STEP = "the rate comes first: model = optim.step(1e-3, model, grads)"
METHODS: dict[str, dict[str, str]] = {
    "step": {MISSING: _STEP, "": _STEP, "closure": _STEP, "learning_rate": _STEP, "rate": _STEP},
}
"""By the name of a method: what to say of its arguments in particular."""
