"""Arguments and attributes of PyTorch's modules and optimizers, with what to write here instead."""

from __future__ import annotations

_AS_CALLED = "it is called {} here"
_BATCH_FIRST = "the batch always comes first"
_CHANNELS = {"num_features": _AS_CALLED.format("channels")}
_CELL = {"input_size": _AS_CALLED.format("inputs"), "hidden_size": _AS_CALLED.format("hidden")}
_RECURRENT = {**_CELL, "num_layers": _AS_CALLED.format("count"), "batch_first": _BATCH_FIRST}
_POOLED = {"return_indices": "the layer returns one tensor; for indices too call its with_indices(x)"}

_EMBEDDED = {
    "num_embeddings": _AS_CALLED.format("count"),
    "embedding_dim": _AS_CALLED.format("size"),
    "max_norm": "rows are never renormalized in a lookup; clip them after a step, with model.map(f)",
    "norm_type": "rows are never renormalized in a lookup",
    "scale_grad_by_freq": "gradients are never scaled by the frequency of a row",
    "sparse": "gradients are dense",
    "_weight": "replace the weight afterwards: layer.replace(weight=Param(tensor))",
}

ARGUMENTS: dict[str, dict[str, str]] = {
    "Module": {"dtype": "cast the model afterwards: model.astype(dtype)"},
    "BatchNorm": _CHANNELS,
    "TransposedConvolution": {"padding_mode": "the padding is always zeros"},
    **dict.fromkeys(("MaxPool", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d"), _POOLED),
    "Dropping": {"inplace": "nothing is changed in place"},
    "Relu": {"inplace": "nothing is changed in place"},
    "Silu": {"inplace": "nothing is changed in place"},
    **dict.fromkeys(("Embedding", "EmbeddingBag"), _EMBEDDED),
    "GroupNorm": {"num_groups": _AS_CALLED.format("groups"), "num_channels": _AS_CALLED.format("channels")},
    "InstanceNorm": _CHANNELS,
    "RmsNorm": {"elementwise_affine": "a norm without a weight is burnpy.nn.functional.rms_norm(x, shape)"},
    "Bilinear": {
        "in1_features": _AS_CALLED.format("in1"),
        "in2_features": _AS_CALLED.format("in2"),
        "out_features": _AS_CALLED.format("outputs"),
    },
    "LayerNorm": {"elementwise_affine": "a norm without weights is burnpy.nn.functional.layer_norm(x, shape)"},
    "Lstm": _RECURRENT,
    "Gru": _RECURRENT,
    "Rnn": _RECURRENT,
    "LstmCell": _CELL,
    "GruCell": _CELL,
    "RnnCell": _CELL,
    "MultiHeadAttention": {
        "embed_dim": _AS_CALLED.format("size"),
        "num_heads": _AS_CALLED.format("heads"),
        "batch_first": _BATCH_FIRST,
        "kdim": "keys and values have the queries' size; put a Linear before the layer",
        "vdim": "keys and values have the queries' size; put a Linear before the layer",
        "add_bias_kv": "the layer has no such bias",
        "add_zero_attn": "a query that may attend to nothing gets zeros anyway",
    },
    "TransformerLayer": {
        "d_model": _AS_CALLED.format("size"),
        "nhead": _AS_CALLED.format("heads"),
        "dim_feedforward": _AS_CALLED.format("feedforward"),
        "layer_norm_eps": _AS_CALLED.format("eps"),
        "batch_first": _BATCH_FIRST,
        "bias": "the layer always has a bias",
    },
    "TransformerStack": {"num_layers": _AS_CALLED.format("count")},
    "TransformerDecoder": {"decoder_layer": "give the sizes of a layer: TransformerDecoder(count, size, heads, …)"},
    "TransformerEncoder": {"encoder_layer": "give the sizes of a layer: TransformerEncoder(count, size, heads, …)"},
    "CrossEntropyLoss": {"weight": "pass it in the call, as a tensor on a device: loss(logits, target, weight=weight)"},
    "NllLoss": {
        "weight": "pass it in the call, as a tensor on a device: loss(log_probabilities, target, weight=weight)"
    },
    "BceWithLogitsLoss": {
        name: f"pass it in the call, as a tensor on a device: loss(input, target, {name}={name})"
        for name in ("weight", "pos_weight")
    },
    **{
        name: {"weight": "pass it in the call, as a tensor on a device: loss(input, target, weight=weight)"}
        for name in ("BceLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss")
    },
    "LinearLr": {"start_factor": "give rates: start and end", "end_factor": "give rates: start and end"},
    "LrSchedule": {
        "optimizer": "a schedule is a function of the step: pass schedule(step) to optim.step()",
        "last_epoch": "a schedule has no state: call it with the step to continue from",
        "gamma": _AS_CALLED.format("factor"),
        "T_max": _AS_CALLED.format("steps"),
        "T_0": _AS_CALLED.format("steps"),
        "T_mult": _AS_CALLED.format("factor"),
        "eta_min": _AS_CALLED.format("end"),
        "step_size": _AS_CALLED.format("every"),
        "total_iters": _AS_CALLED.format("steps"),
        "max_lr": _AS_CALLED.format("peak"),
        "total_steps": _AS_CALLED.format("steps"),
        "pct_start": _AS_CALLED.format("rising"),
        "div_factor": _AS_CALLED.format("start_factor"),
        "final_div_factor": _AS_CALLED.format("end_factor"),
        "anneal_strategy": _AS_CALLED.format("shape"),
    },
    "Optimizer": {
        "": "pass parameters and rate to each step: model = optim.step(1e-3, model, grads)",
        "params": "pass the model to each step: model = optim.step(1e-3, model, grads)",
        "lr": "pass the rate to each step: model = optim.step(1e-3, model, grads)",
        **dict.fromkeys(("foreach", "fused", "capturable"), "updates are always fused"),
        "differentiable": "a step is not differentiated; in burnpy.func write it with tensors, by model.with_state",
        "initial_accumulator_value": _AS_CALLED.format("initial_sum"),
    },
}
"""For a class or a base class: suggestions by argument name, and under "" for too many positional arguments."""

_GRADIENTS = "gradients are not stored: loss.backward() returns them"
ATTRIBUTES: dict[str, dict[str, str]] = {
    "Module": {
        "parameters": "use model.params()",
        "named_parameters": "use model.named_params()",
        "buffers": "use model.named_buffers()",
        "modules": "use model.named_modules()",
        "children": "use model.named_modules()",
        "state_dict": "use model.into_record(), of arrays, or model.state(), of tensors",
        "load_state_dict": "use model.load_record(record); for PyTorch's, burnpy.record.from_torch(model, …)",
        "zero_grad": _GRADIENTS,
        "training": "use model.is_training",
        "compile": "use burnpy.compiled(model), and to train compile the whole step",
        "requires_grad_": "use model.no_grad(where) and model.require_grad(where)",
        "apply": "use model.map(f), which returns another model",
        **dict.fromkeys(("to", "cuda", "cpu"), "use model.to_device(device), and for dtypes model.astype(dtype)"),
        **dict.fromkeys(("float", "double", "half", "bfloat16", "type", "to_dtype"), "use model.astype(dtype)"),
        "register_buffer": "assign a Buffer in __init__",
        "register_parameter": "assign a Param in __init__",
        "add_module": "assign it in __init__, or use model.replace({path: module})",
        "append": "make another: Sequential(*model, layer)",
    },
    "Optimizer": {
        "zero_grad": _GRADIENTS,
        "state_dict": "use optim.into_record()",
        "load_state_dict": "use optim.load_record(record, model)",
        "param_groups": "use optim.groups, and pass the rate to each step",
        "add_param_group": "give groups=[Group(where, …)] when it is made",
    },
    "Variable": {"grad": _GRADIENTS, "data": "use param.value"},
}
"""Suggestions by attribute name, for each kind of object: Module, Optimizer, Variable (a parameter or a buffer)."""


def arguments_of(cls: type) -> dict[str, str]:
    """Return the suggestions for the arguments of a class, including those of its base classes."""
    hints: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        hints |= ARGUMENTS.get(base.__name__, {})
    return hints
