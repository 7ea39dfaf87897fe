"""Layers of images and sequences beside PyTorch's, as `test_nn` compares them."""

from __future__ import annotations

from typing import Any

import pytest

from burnpy import Generator
from burnpy import nn as ours
from burnpy.backend import NumPy

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

from tests.parity import test_nn  # noqa: E402  # after the check that PyTorch is there
from tests.parity.test_nn import IMAGES, Case, D, data  # noqa: E402

pytestmark = test_nn.pytestmark

SEQUENCES = data(2, 4, 9)
VOLUMES = data(2, 4, 6, 5, 7)


def adaptive(size: Any) -> Case:
    """Both adaptive pools, one after the other."""
    return Case(
        lambda: ours.Sequential(ours.AdaptiveAvgPool2d(size), ours.AdaptiveMaxPool2d(size)),
        lambda: torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(size), torch.nn.AdaptiveMaxPool2d(size)),
        (IMAGES,),
    )


def norms(dims: int, x: Any) -> Case:
    """A pool by norms."""
    return Case(
        lambda: getattr(ours, f"LpPool{dims}d")(4, 3, stride=2),
        lambda: getattr(torch.nn, f"LPPool{dims}d")(4, 3, 2),
        (x,),
    )


def padded(mode: Any, padding: Any) -> Case:
    """Convolutions of volumes, images and sequences with values around their input, one after the other."""
    settings = {"padding": padding, "padding_mode": mode}

    def layers(nn: Any, **device: Any) -> Any:
        return nn.Sequential(
            nn.Conv3d(4, 3, (3, 4, 3), **settings, **device),
            nn.Flatten(2, 3),
            nn.Conv2d(3, 2, (2, 3), **settings, **device),
            nn.Flatten(2, 3),
            nn.Conv1d(2, 2, 4, **settings, **device),
        )

    return Case(lambda: layers(ours, **D), lambda: layers(torch.nn), (VOLUMES,))


CASES = {
    "conv1d": Case(lambda: ours.Conv1d(4, 6, 3, **D), lambda: torch.nn.Conv1d(4, 6, 3), (SEQUENCES,)),
    "conv1d, settings": Case(
        lambda: ours.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False, **D),
        lambda: torch.nn.Conv1d(4, 6, 3, 2, 2, 2, 2, False),
        (SEQUENCES,),
    ),
    "conv1d, same, one sequence": Case(
        lambda: ours.Conv1d(4, 6, 4, padding="same", **D),
        lambda: torch.nn.Conv1d(4, 6, 4, padding="same"),
        (SEQUENCES[0],),
    ),
    "conv3d": Case(
        lambda: ours.Conv3d(4, 6, (3, 2, 3), stride=(1, 2, 1), padding=(1, 0, 2), dilation=(2, 1, 1), groups=2, **D),
        lambda: torch.nn.Conv3d(4, 6, (3, 2, 3), (1, 2, 1), (1, 0, 2), (2, 1, 1), 2),
        (VOLUMES,),
    ),
    **{
        f"conv, {mode} {padding}": padded(mode, padding)
        for mode in ("reflect", "replicate", "circular", "zeros")
        for padding in (2, "same")
    },
    "conv_transpose3d": Case(
        lambda: ours.ConvTranspose3d(4, 6, (3, 2, 3), stride=2, padding=(1, 0, 1), output_padding=1, groups=2, **D),
        lambda: torch.nn.ConvTranspose3d(4, 6, (3, 2, 3), 2, (1, 0, 1), 1, 2),
        (VOLUMES,),
    ),
    "local_response_norm": Case(
        lambda: ours.LocalResponseNorm(4, alpha=0.5, beta=0.25, k=2.0),
        lambda: torch.nn.LocalResponseNorm(4, 0.5, 0.25, 2.0),
        (VOLUMES,),
    ),
    "batch_norm of volumes": Case(lambda: ours.BatchNorm(4, **D), lambda: torch.nn.BatchNorm3d(4), (VOLUMES,)),
    "group_norm of volumes": Case(lambda: ours.GroupNorm(2, 4, **D), lambda: torch.nn.GroupNorm(2, 4), (VOLUMES,)),
    "instance_norm of volumes": Case(
        lambda: ours.InstanceNorm(4, affine=True, **D), lambda: torch.nn.InstanceNorm3d(4, affine=True), (VOLUMES,)
    ),
    "conv_transpose1d": Case(
        lambda: ours.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2, **D),
        lambda: torch.nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, True, 2),
        (SEQUENCES,),
    ),
    "conv_transpose2d": Case(
        lambda: ours.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=(1, 0), output_padding=1, groups=2, **D),
        lambda: torch.nn.ConvTranspose2d(4, 6, (3, 2), 2, (1, 0), 1, 2),
        (IMAGES,),
    ),
    "conv_transpose2d, one image": Case(
        lambda: ours.ConvTranspose2d(4, 2, 3, bias=False, **D),
        lambda: torch.nn.ConvTranspose2d(4, 2, 3, bias=False),
        (IMAGES[0],),
    ),
    "max_pool1d": Case(
        lambda: ours.MaxPool1d(3, stride=2, padding=1, dilation=2, ceil_mode=True),
        lambda: torch.nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True),
        (SEQUENCES,),
    ),
    "avg_pool1d": Case(
        lambda: ours.AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        lambda: torch.nn.AvgPool1d(3, 2, 1, True, False),
        (SEQUENCES,),
    ),
    "adaptive_avg_pool1d": Case(lambda: ours.AdaptiveAvgPool1d(4), lambda: torch.nn.AdaptiveAvgPool1d(4), (SEQUENCES,)),
    "adaptive_max_pool1d": Case(lambda: ours.AdaptiveMaxPool1d(4), lambda: torch.nn.AdaptiveMaxPool1d(4), (SEQUENCES,)),
    "adaptive_max_pool2d": Case(
        lambda: ours.AdaptiveMaxPool2d((3, 4)), lambda: torch.nn.AdaptiveMaxPool2d((3, 4)), (IMAGES,)
    ),
    **{f"adaptive {size}": adaptive(size) for size in ((None, 2), (3, None), [None, None])},
    "max_pool3d": Case(
        lambda: ours.MaxPool3d(3, stride=(2, 1, 2), padding=1, dilation=(2, 1, 1), ceil_mode=True),
        lambda: torch.nn.MaxPool3d(3, (2, 1, 2), 1, (2, 1, 1), ceil_mode=True),
        (VOLUMES,),
    ),
    "avg_pool3d": Case(
        lambda: ours.AvgPool3d((3, 2, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        lambda: torch.nn.AvgPool3d((3, 2, 2), 2, 1, True, False),
        (VOLUMES,),
    ),
    **{f"lp_pool{dims}d": norms(dims, x) for dims, x in ((1, SEQUENCES), (2, IMAGES), (3, VOLUMES))},
    "adaptive pools of volumes": Case(
        lambda: ours.Sequential(ours.AdaptiveAvgPool3d((5, None, 4)), ours.AdaptiveMaxPool3d((None, 2, 3))),
        lambda: torch.nn.Sequential(torch.nn.AdaptiveAvgPool3d((5, None, 4)), torch.nn.AdaptiveMaxPool3d((None, 2, 3))),
        (VOLUMES,),
    ),
    "unfold": Case(
        lambda: ours.Unfold((3, 2), dilation=(1, 2), padding=1, stride=2),
        lambda: torch.nn.Unfold((3, 2), (1, 2), 1, 2),
        (IMAGES,),
    ),
    "fold": Case(
        lambda: ours.Fold((5, 6), (3, 2), dilation=(1, 2), padding=1, stride=2),
        lambda: torch.nn.Fold((5, 6), (3, 2), (1, 2), 1, 2),
        (data(2, 12, 9),),
    ),
    "pixel_shuffle": Case(lambda: ours.PixelShuffle(2), lambda: torch.nn.PixelShuffle(2), (IMAGES,)),
    "pixel_unshuffle": Case(lambda: ours.PixelUnshuffle(3), lambda: torch.nn.PixelUnshuffle(3), (data(2, 2, 6, 9),)),
    "group_norm": Case(lambda: ours.GroupNorm(2, 4, eps=1e-3, **D), lambda: torch.nn.GroupNorm(2, 4, 1e-3), (IMAGES,)),
    "group_norm, vectors, not affine": Case(
        lambda: ours.GroupNorm(2, 6, affine=False, **D), lambda: torch.nn.GroupNorm(2, 6, affine=False), (data(3, 6),)
    ),
    "instance_norm": Case(
        lambda: ours.InstanceNorm(4, affine=True, **D), lambda: torch.nn.InstanceNorm2d(4, affine=True), (IMAGES,)
    ),
    "instance_norm, sequences": Case(
        lambda: ours.InstanceNorm(4, eps=1e-3, **D), lambda: torch.nn.InstanceNorm1d(4, 1e-3), (SEQUENCES,)
    ),
    "rms_norm": Case(lambda: ours.RmsNorm(9, **D), lambda: torch.nn.RMSNorm(9), (SEQUENCES,)),
    "rms_norm, 2 dims": Case(
        lambda: ours.RmsNorm((4, 9), eps=1e-3, **D), lambda: torch.nn.RMSNorm((4, 9), 1e-3), (SEQUENCES,)
    ),
    "bilinear": Case(
        lambda: ours.Bilinear(3, 4, 5, **D), lambda: torch.nn.Bilinear(3, 4, 5), (data(2, 6, 3), data(2, 6, 4))
    ),
    "upsample": Case(
        lambda: ours.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"),
        lambda: torch.nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"),
        (IMAGES,),
    ),
    "constant_pad": Case(
        lambda: ours.ConstantPad((1, -2), 7.0), lambda: torch.nn.ConstantPad1d((1, -2), 7.0), (SEQUENCES,)
    ),
    "zero_pad": Case(lambda: ours.ZeroPad(2), lambda: torch.nn.ZeroPad2d(2), (IMAGES,)),
    "reflection_pad": Case(lambda: ours.ReflectionPad(3, dims=1), lambda: torch.nn.ReflectionPad1d(3), (SEQUENCES,)),
    "replication_pad": Case(
        lambda: ours.ReplicationPad((1, 0, 2, 3)), lambda: torch.nn.ReplicationPad2d((1, 0, 2, 3)), (IMAGES,)
    ),
    "circular_pad": Case(
        lambda: ours.CircularPad((1, 2, 3, 0, 1, 1)),
        lambda: torch.nn.CircularPad3d((1, 2, 3, 0, 1, 1)),
        (data(2, 3, 4, 4, 5),),
    ),
    "channel_shuffle": Case(lambda: ours.ChannelShuffle(2), lambda: torch.nn.ChannelShuffle(2), (IMAGES,)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_values_and_gradients(case: Case) -> None:
    test_nn.test_values_and_gradients(case)


LAYERS: dict[str, Any] = {
    "bilinear": (lambda g: ours.Bilinear(30, 40, 60, device=NumPy, generator=g), lambda: torch.nn.Bilinear(30, 40, 60)),
    "conv1d": (lambda g: ours.Conv1d(40, 60, 3, device=NumPy, generator=g), lambda: torch.nn.Conv1d(40, 60, 3)),
    "conv3d": (lambda g: ours.Conv3d(20, 30, 3, device=NumPy, generator=g), lambda: torch.nn.Conv3d(20, 30, 3)),
    "conv_transpose1d": (
        lambda g: ours.ConvTranspose1d(40, 60, 3, groups=2, device=NumPy, generator=g),
        lambda: torch.nn.ConvTranspose1d(40, 60, 3, groups=2),
    ),
    "conv_transpose2d": (
        lambda g: ours.ConvTranspose2d(40, 20, 3, device=NumPy, generator=g),
        lambda: torch.nn.ConvTranspose2d(40, 20, 3),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_first_values_have_the_same_distribution(name: str) -> None:
    torch.manual_seed(0)
    mine, other = LAYERS[name][0](Generator(0)), LAYERS[name][1]()
    for path, p in other.named_parameters():
        test_nn.same_distribution(mine.named_params()[path].value.to_numpy(), p.detach().numpy(), path)
