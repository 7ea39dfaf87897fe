"""The names that NumPy has and PyTorch does not, with what to write here instead."""

from __future__ import annotations

ROWS = """
# NumPy's names
array | Tensor.from_data([[1.0, 2.0]], device=device)
asanyarray | Tensor.from_data(array, device=device)
ascontiguousarray | x | the backend chooses the memory layout
identity | Tensor.eye(3, device=device)
astype | x.to_dtype("float64") | `x.float()`, `x.int()` and `x.bool()` change the kind
copy | x | tensors never change, so that x itself is as good as a copy
ptp | x.amax() - x.amin()
compress | x[rows]
choose | burnpy.where(b, x, y)
power | x.pow(y) | also `x ** y`
mod | x.remainder(y) | also `x % y`
fabs | x.abs()
rint | x.round()
around | x.round()
cbrt | x.abs() ** (1.0 / 3.0) * x.sign()
average | x.mean()
argpartition | – | not yet
partition | – | not yet
expand_dims | x.unsqueeze(0)
append | burnpy.cat([x, y], dim=0)
delete | x[rows]
insert | burnpy.cat([x[:1], y, x[1:]], dim=0)
array_split | x.tensor_split(2)
rollaxis | x.movedim(0, 1)
itemset | x = x.at[0, 0].set(value)
ndindex | np.ndindex(x.shape)
array_equal | bool((x == y).all())
invert | ~i
left_shift | i.bitwise_left_shift(j) | also `i << j`
right_shift | i.bitwise_right_shift(j) | also `i >> j`
iscomplex | – | complex tensors are `burnpy.fft.ComplexTensor`
pad | burnpy.nn.functional.pad(x, (1, 1)) | a pair for each dimension, the last one's first
random | Tensor.uniform(shape, device=device) | `burnpy.Generator(0)` is a generator of your own
tobytes | x.to_numpy().tobytes()
tofile | x.to_numpy().tofile("x.bin")
setflags | x | tensors never change
strides | – | the backend chooses the memory layout
flat | x.flatten()
base | – | tensors never change, so that it does not matter what shares their memory
byteswap | – | bytes are in this machine's order
dump | record.save("run.safetensors", model=model, step=3)
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""

NAMES = [line.partition(" | ")[0] for line in ROWS.splitlines()[2:]]
