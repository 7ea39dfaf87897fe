"""PyTorch's names in `burnpy.hints.torch_public_names`, which ``python tests/parity/pytorch_names.py`` writes."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parents[2] / "burnpy" / "hints" / "torch_public_names.py"

INTERNAL = re.compile(
    r"^(cudnn|miopen|mkldnn|fbgemm|native|quantized|fused|sym|batch_norm_|autocast|rnn_relu$|rnn_tanh$)"
    r"|_copy$|^(fake_quantize|choose_qparams|quantize_per|empty_quantized|get_autocast|set_autocast|is_autocast)"
    r"|^(affine_grid_generator|cudnn_is_acceptable|convolution|conv_tbc|dsmm|hsmm|hspmm|saddmm|spmm|sspaddmm|smm)$"
    r"|^(constant_pad_nd|feature_dropout|feature_alpha_dropout|grid_sampler.*|is_vulkan_available|lstm|gru|merge_type)$"
    r"|^(.*_cell|max_pool1d_with_indices|norm_except_dim|unique_dim|segment_reduce|rsub|embedding_renorm|from_file)$"
)
"""Functions of torch that its documentation leaves out, or that only its own modules call."""

SMALL = re.compile(r"bit|q?u?int[1-7]$|quint|qint|float[48]")
"""Dtypes of less than a byte, or with a scale: of no use to most who look for a name."""

DOCUMENTED = (
    *("broadcast_shapes", "compile", "device", "dtype", "einsum", "enable_grad", "finfo", "from_dlpack"),
    *("get_default_device", "get_default_dtype", "get_num_threads", "get_rng_state", "iinfo", "inference_mode"),
    *("initial_seed", "is_grad_enabled", "is_tensor", "load", "manual_seed", "no_grad", "save", "seed"),
    *("set_default_device", "set_default_dtype", "set_grad_enabled", "set_num_threads", "set_printoptions"),
    *("set_rng_state", "unravel_index", "use_deterministic_algorithms", "vmap"),
    *("autograd", "cuda", "fft", "linalg", "special", "utils"),
)
"""What torch has besides operations and people look for."""


def names() -> dict[str, list[str]]:
    """The names of each part of the installed PyTorch, by the name of the list."""
    import torch

    operations = {*dir(torch._C._VariableFunctions), *torch.functional.__all__}
    return {
        "TENSOR": public(torch.Tensor),
        "TORCH": sorted(
            {name for name in operations if name[0] != "_" and name[-1] != "_" and not INTERNAL.search(name)}
            | {name for name in DOCUMENTED if hasattr(torch, name)}
            | {name for name, value in vars(torch).items() if isinstance(value, torch.dtype) and not SMALL.match(name)}
        ),
        "NN": sorted({name for name in public(torch.nn) if inspect.isclass(getattr(torch.nn, name))}),
        "FUNCTIONAL": functions(torch.nn.functional),
        "INIT": functions(torch.nn.init),
        "OPTIM": sorted({*torch.optim.__all__, *torch.optim.lr_scheduler.__all__, "lr_scheduler", "swa_utils"}),
        "FUNC": sorted(torch.func.__all__),
        "FFT": functions(torch.fft),
        "SPECIAL": functions(torch.special),
        "LINALG": [name for name in public(torch.linalg) if name.islower() and callable(getattr(torch.linalg, name))],
    }


def public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


def functions(module: ModuleType) -> list[str]:
    """The functions that are a module's own, or torch's under its name; not what it imports to write its types."""
    found = {name: getattr(module, name) for name in public(module)}
    return [
        name
        for name, value in found.items()
        if callable(value)
        and not inspect.isclass(value)
        and name.islower()
        and (getattr(value, "__module__", None) or "torch").startswith("torch")
        and getattr(value, "__module__", None) not in ("torch.overrides", "torch._jit_internal", "torch._torch_docs")
        and not name.startswith(("assert_", "boolean_dispatch", "handle_torch", "has_torch", "native_"))
    ]


def page(lists: Mapping[str, Iterable[str]], version: str) -> str:
    parts = [
        f'"""The public names of PyTorch {version}: made by ``python tests/parity/pytorch_names.py``."""\n',
        "from __future__ import annotations\n",
    ]
    for name, found in lists.items():
        text = textwrap.fill(" ".join(found), 119, break_long_words=False, break_on_hyphens=False)
        parts.append(f'{name} = """\n{text}\n"""\n')
    return "\n".join(parts)


if __name__ == "__main__":
    import torch

    PAGE.write_text(page(names(), torch.__version__.partition("+")[0]), encoding="utf-8")
