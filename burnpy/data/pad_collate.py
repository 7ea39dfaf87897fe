"""`pad_collate`: batches of samples of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.data.batch import Batch
from burnpy.data.collate import (
    Collator,
    Samples,
    TensorCollator,
    Transform,
    as_array,
    batch_class,
    by_name,
    checked_transforms,
    refuse_mixed,
    stacked_column,
)
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bt = TypeVar("Bt", bound=Batch[Any])


class PaddingCollator(TensorCollator[Bt]):
    """Makes batches whose columns are as long as the longest sample; `pad_collate` returns one."""

    def __init__(
        self, cls: type[Any], device: Any, transforms: tuple[Transform, ...], fills: Mapping[str, float], multiple: int
    ) -> None:
        super().__init__(cls, device, transforms)
        self.fills, self.multiple = dict(fills), multiple

    def stack(self, samples: Samples) -> dict[str, Any]:
        """Return the padded columns, and the lengths and the mask of each column in ``fills``."""
        indices: list[int] = samples.indices.tolist()
        if samples.columns is None:
            values = by_name(samples.items, indices)
        else:
            values = {name: list(column) for name, column in samples.columns.items()}
        out: dict[str, Any] = {}
        for name, column in values.items():
            if name not in self.fills:
                out[name] = stacked_column(name, column, indices)
                continue
            padded, lengths = self._padded(name, column, indices)
            out[name], out[f"{name}_lengths"] = padded, lengths
            out[f"{name}_mask"] = np.arange(padded.shape[1]) < lengths[:, None]
        missing = self.fills.keys() - values.keys()
        if missing:
            raise ArgumentError(
                f"pad_collate() cannot pad {', '.join(sorted(missing))}: the samples have {', '.join(values)}"
            )
        return out

    def _padded(
        self, name: str, column: Sequence[Any], indices: Sequence[int]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        arrays: list[NDArray[Any]] = []
        for value, i in zip(column, indices, strict=True):
            array = as_array(value)
            if array is None or not array.ndim:
                raise ShapeError(f"pad_collate() cannot pad {name}, which in sample {i} is not an array with a length")
            arrays.append(array)
        chosen = [j for j, array in enumerate(arrays) if len(array)]  # an empty list has a dtype by chance
        filled = [arrays[j] for j in chosen] or arrays
        refuse_mixed(name, filled, [indices[j] for j in chosen] or indices)
        rest = filled[0].shape[1:]
        for array, i in zip(arrays, indices, strict=True):
            if array.shape[1:] != rest and len(array):
                raise ShapeError(
                    f"{name} has shape {filled[0].shape} in sample {indices[0]} and {array.shape} in sample {i}; "
                    "padding makes up for different lengths of the first dimension alone"
                )
        lengths = np.array([len(array) for array in arrays], np.int64)
        longest = -(-int(lengths.max(initial=0)) // self.multiple) * self.multiple
        out = np.full((len(arrays), longest, *rest), self.fills[name], np.result_type(*filled))
        for row, array in zip(out, arrays, strict=True):
            row[: len(array)] = array.reshape(len(array), *rest)
        return out, lengths


@overload
def pad_collate(
    *,
    device: B | type[B],
    pad: Mapping[str, float],
    multiple: int = ...,
    transform: Transform | Sequence[Transform] = ...,
) -> Collator[Batch[B]]: ...


@overload
def pad_collate(
    batch: type[Bt],
    *,
    pad: Mapping[str, float],
    multiple: int = ...,
    transform: Transform | Sequence[Transform] = ...,
) -> Collator[Bt]: ...


@explained
def pad_collate(
    batch: type[Any] = Batch,
    *,
    device: Any = None,
    pad: Mapping[str, float],
    multiple: int = 1,
    transform: Transform | Sequence[Transform] = (),
) -> Collator[Any]:
    """Return a collator that pads columns to the longest sample of the batch.

    For a padded column ``x`` of shape (n, longest, …) the batch also has ``x_lengths``, the lengths (n,), and
    ``x_mask``, True where there is something, (n, longest).

    Args:
        batch: the class of the batches with its backend, as ``Text[Train]``; see `Batch`.
        device: the device of the tensors, instead of ``batch``.
        pad: the columns that are padded, each with its padding value.
        multiple: padded lengths are multiples of this.
        transform: functions of the padded columns; see `collate`.

    Raises:
        DeviceError: there is no backend.
        ArgumentError: ``multiple`` is not positive, or there is nothing to pad.

    >>> from burnpy.data import Loader
    >>> words = [{"ids": [3, 1]}, {"ids": [2]}, {"ids": [5, 4, 6]}]
    >>> (batch,) = Loader(words, pad_collate(device=NumPy, pad={"ids": 0}), batch_size=3)
    >>> batch.ids.tolist(), batch.ids_lengths.tolist()
    ([[3, 1, 0], [2, 0, 0], [5, 4, 6]], [2, 1, 3])
    >>> batch.ids_mask.tolist()[1]
    [True, False, False]
    """
    if multiple < 1 or not pad:
        raise ArgumentError(
            f"pad_collate() got pad={dict(pad)} and multiple={multiple}; expected at least one column, as "
            'pad={"ids": 0}, and a positive multiple'
        )
    cls, target = batch_class(batch, device, "pad_collate")
    return PaddingCollator(cls, target, checked_transforms(transform, "pad_collate"), pad, multiple)
