"""Augmentations of whole batches of images: functions of the columns and of random numbers for each sample.

Images are arrays of shape (n, channels, height, width). An augmentation is a value, which is given to `collate`, alone
or in a list::

    collate(device=Train, transform=[Shift(2), Flip(), Mixup(0.2, classes=10)])
"""

from __future__ import annotations

from burnpy.data.transforms.images import ColourJitter, Crop, Flip, Normalize, Rotate, Shift
from burnpy.data.transforms.mixing import Cutout, Mixup

__all__ = ["ColourJitter", "Crop", "Cutout", "Flip", "Mixup", "Normalize", "Rotate", "Shift"]
