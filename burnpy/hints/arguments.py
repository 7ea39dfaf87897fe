"""The names of arguments of operations in PyTorch and NumPy, with the corresponding names in burnpy."""

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
    "key_padding_mask": ("key_mask",),
    "src_key_padding_mask": ("key_mask",),
    "src_mask": ("mask",),
    "num_workers": ("workers",),
    "collate_fn": ("collate",),
    "prefetch_factor": ("prefetch",),
    "optimizer": ("optim",),
    "learning_rate": ("lr",),
    "num_epochs": ("epochs",),
    "max_epochs": ("epochs",),
    "train_loader": ("train",),
    "valid_loader": ("valid",),
    "val_loader": ("valid",),
}
"""For each name: the names here. The first that the function accepts is suggested."""

SENTENCES: dict[str, str] = {
    "unbiased": "correction=1 is unbiased=True, and correction=0 unbiased=False",
    "inplace": "nothing is changed in place",
    "out": "the result is always a new tensor",
    "requires_grad": "call .require_grad() on the result",
    "device": "call .to_device(device) on the result",
    "dtype": "call .to_dtype(dtype) on the result",
    "size_average": 'use reduction="mean", "sum" or "none"',
    "reduce": 'use reduction="mean", "sum" or "none"',
    "stable": "equal elements always keep their order",
    "non_blocking": "results are computed asynchronously wherever the backend can",
    **dict.fromkeys(
        ("layout", "memory_format", "pin_memory", "order", "strides"),
        "the backend chooses the memory layout",
    ),
}
"""For each name that has no counterpart: the suggestion."""

MISSING = "(missing)"
"""The key of the suggestion for missing arguments."""

_STEP = "the rate comes first: model = optim.step(1e-3, model, grads)"
METHODS: dict[str, dict[str, str]] = {
    "where": {MISSING: "for the indices of True elements use condition.nonzero(as_tuple=True)"},
    "ArrayDataset": {"": "columns have names: ArrayDataset(x=images, y=labels)"},
    "Loader": {
        MISSING: "collate(device=NumPy) makes batches of tensors",
        "pin_memory": "batches are made on the device of collate(device=...)",
        "generator": "seed= and the epoch decide the order",
        "persistent_workers": "they always stay for the next epoch",
        "worker_init_fn": "random numbers belong to samples: f(sample, rng) of data.map_random has them",
        "batch_sampler": "sampler= gives the order, and batch_size the number of samples",
    },
    "step": {MISSING: _STEP, "": _STEP, "closure": _STEP, "learning_rate": _STEP, "rate": _STEP},
}
"""For each method: suggestions that apply to its arguments only."""
