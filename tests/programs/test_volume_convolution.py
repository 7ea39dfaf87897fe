"""The kernels of convolutions of volumes, against the convolutions of their planes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.operations.convolution import VolumeConvolution
from tests.rows import every_row

pytest.importorskip("llvmlite")

from burnpy_numpy.kernels.convolution import conv2d, volumes

D: Any = NumPy()
PLANES: Any = VolumeConvolution

GEOMETRIES: dict[str, tuple[Any, ...]] = {  # shapes of x and weight; stride, padding, dilation, groups
    "padding": ((2, 3, 6, 7, 9), (4, 3, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
    "no padding": ((2, 3, 4, 5, 16), (7, 3, 2, 3, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
    "dilation and groups": ((2, 4, 6, 7, 9), (6, 2, 2, 3, 2), (1, 1, 1), (0, 1, 0), (2, 1, 2), 2),
    "stride in two dims": ((1, 3, 8, 9, 12), (5, 3, 3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1), 1),
    "stride": ((1, 3, 8, 9, 17), (5, 3, 3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1),
    "one plane": ((2, 3, 1, 9, 17), (5, 3, 1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
    "depthwise": ((1, 4, 5, 5, 20), (4, 1, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 4),
    "planes of padding": ((2, 3, 4, 7, 16), (4, 3, 2, 3, 3), (1, 1, 1), (3, 1, 1), (1, 1, 1), 1),
    "stride beyond the window": ((1, 2, 9, 20, 20), (3, 2, 2, 3, 1), (3, 2, 3), (0, 2, 0), (2, 3, 1), 1),
}


@every_row("laid_out", [1, volumes.LAID_OUT])
@every_row("dtype", ["float32", "float64"])
@every_row("case", GEOMETRIES)
def test_kernels_agree_with_convolutions_of_planes(
    case: str, dtype: str, laid_out: int, noted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the padded planes are laid out in several parts."""
    monkeypatch.setattr(conv2d, "MIN_PRODUCTS", 1)
    monkeypatch.setattr(volumes, "LAID_OUT", laid_out)
    volumes.volume_windows.cache_clear()
    shape, sizes, *where = GEOMETRIES[case]
    rng = np.random.default_rng(sum(shape))
    x, weight, bias = (rng.uniform(-1, 1, size).astype(dtype) for size in (shape, sizes, sizes[:1]))
    bound = 1e-4 if dtype == "float32" else 1e-11
    expected = PLANES.conv3d_bias(D, x, weight, bias, *where)
    grad = rng.uniform(-1, 1, expected.shape).astype(dtype)
    noted.clear()
    np.testing.assert_allclose(D.conv3d_bias(x, weight, bias, *where), expected, rtol=bound, atol=bound)
    found = D.conv3d_input(grad, weight, shape, *where), D.conv3d_weight(grad, x, sizes, *where)
    assert {kernel.program.name for kernel in noted} == {"convolution", "weight_gradient"}
    for result, name, arguments in (
        (found[0], "conv3d_input", (grad, weight, shape)),
        (found[1], "conv3d_weight", (grad, x, sizes)),
    ):
        reference = getattr(PLANES, name)(D, *arguments, *where)
        np.testing.assert_allclose(result, reference, rtol=10 * bound, atol=10 * bound, err_msg=name)


def test_an_infinite_weight_reaches_only_its_windows() -> None:
    weight = np.ones((2, 2, 3, 3, 3), np.float32)
    weight[0, 0, 0, 0, 0] = np.inf
    where = ((1, 1, 1), (1, 1, 1), (1, 1, 1), 1)
    grad = np.ones((1, 2, 8, 16, 16), np.float32)
    found = D.conv3d_input(grad, weight, (1, 2, 8, 16, 16), *where)
    assert not np.isnan(found).any()
    assert np.isinf(found[0, 0, :7, :15, :15]).all()
    assert np.isfinite(found[0, 1]).all()
