"""PyTorch's names that rearrange, select or join elements or expose memory, with what to write here instead."""

from __future__ import annotations

ROWS = """
# Shape
reshape | x.reshape(3, 2)
reshape_as | x.reshape(y.shape)
view | x.reshape(3, 2) | copies nothing where a view will do; of dtypes `x.to_dtype(dtype)`
view_as | x.reshape(y.shape)
flatten | x.flatten()
ravel | x.ravel()
unflatten | x.unflatten(1, (3, 1))
squeeze | x.squeeze()
unsqueeze | x.unsqueeze(0)
expand | x.expand(4, 2, 3)
expand_as | x.expand_as(y)
broadcast_to | x.broadcast_to((4, 2, 3))
broadcast_tensors | burnpy.broadcast_tensors(x, v)
broadcast_shapes | np.broadcast_shapes(x.shape, v.shape)
atleast_1d | burnpy.atleast_1d(x)
atleast_2d | burnpy.atleast_2d(v)
atleast_3d | burnpy.atleast_3d(x)
resize | x.reshape(3, 2) | a tensor keeps its number of elements
resize_as | x.reshape(y.shape) | a tensor keeps its number of elements
permute | x.permute(1, 0)
transpose | x.transpose(0, 1)
swapaxes | x.swapaxes(0, 1)
swapdims | x.transpose(0, 1)
t | x.T
T | x.T | of a matrix; of more dimensions mT or permute
mT | x.mT
movedim | x.movedim(0, 1)
moveaxis | x.movedim(0, 1)
flip | x.flip(0)
fliplr | x.flip(1)
flipud | x.flip(0)
rot90 | x.rot90()
roll | x.roll(1, 0)
repeat | x.repeat(2, 1) | NumPy's repeats elements, as `x.repeat_interleave(2)`
tile | x.tile((2, 1))
repeat_interleave | x.repeat_interleave(2, dim=0)
unfold | x.unfold(1, 2, 1) | of images `burnpy.nn.functional.unfold(x, 2)`
as_strided | – | the backend chooses the memory layout
meshgrid | burnpy.meshgrid(v, v) | `indexing="ij"` by default; NumPy's default is "xy"
cartesian_prod | burnpy.cartesian_prod(v, v)
combinations | – | not yet
pixel_shuffle | burnpy.nn.functional.pixel_shuffle(y.reshape(6, 1, 1)[:4], 2)
pixel_unshuffle | burnpy.nn.functional.pixel_unshuffle(y[:, :2].unsqueeze(0), 2)
channel_shuffle | burnpy.nn.functional.channel_shuffle(y.reshape(1, 6, 1), 2)

# Joining and splitting
cat | burnpy.cat([x, y], dim=0)
concat | burnpy.cat([x, y], dim=0)
concatenate | burnpy.cat([x, y], dim=0)
stack | burnpy.stack([x, y])
hstack | burnpy.hstack([x, y])
vstack | burnpy.vstack([x, y])
row_stack | burnpy.vstack([x, y])
column_stack | burnpy.cat([x, y], dim=1)
dstack | burnpy.dstack([x, y])
block_diag | burnpy.block_diag(x, m)
split | x.split(1)
split_with_sizes | x.split([1, 1])
chunk | x.chunk(2)
tensor_split | x.tensor_split((1, 2), dim=1)
hsplit | x.tensor_split((1, 2), dim=1)
vsplit | x.tensor_split((1,), dim=0)
dsplit | x.unsqueeze(2).tensor_split(1, dim=2)
unbind | x.unbind()
unsafe_chunk | x.chunk(2)
unsafe_split | x.split(1)
unsafe_split_with_sizes | x.split([1, 1])

# Choosing and writing elements
where | burnpy.where(b, x, y)
index | x[rows] | every form of NumPy's, steps backward too; an int among indices places no dimension
gather | x.gather(0, i)
take_along_dim | x.take_along_dim(i, dim=0)
take | x.take(rows)
index_select | x.index_select(0, rows)
masked_select | x.masked_select(b)
masked_fill | x.masked_fill(b, value)
nonzero | x.nonzero() | takes `as_tuple=`
argwhere | x.argwhere()
nonzero_static | x.nonzero() | with as many rows as there are
narrow | x.narrow(1, 0, 2)
narrow_copy | x.narrow(1, 0, 2)
select | x.select(0, 1)
tril | x.tril()
triu | x.triu()
diagonal | m.diagonal()
diag | m.diag()
diag_embed | v.diag_embed()
diagflat | x.ravel().diag()
scatter | x.scatter(0, i, y) | takes `reduce=`; of a repeated index the last value alone gets a gradient
scatter_add | x.scatter_add(0, i, y)
scatter_reduce | x.scatter_reduce(0, i, y, "amax") | takes `include_self=`
index_add | x.index_add(0, rows, y) | takes `alpha=`
index_copy | x.index_copy(0, rows, y) | of a repeated index the last slice alone gets a gradient
index_fill | x.index_fill(0, rows, value)
index_put | x.at[rows].set(y) | `accumulate=True` is `.add(y)`
index_reduce | x.index_reduce(0, rows, y, "amax") | takes `include_self=`
put | x.flatten().at[rows].set(value)
select_scatter | x.at[0].set(value)
slice_scatter | x.at[:, 1:].set(value)
slice_inverse | – | internal there
diagonal_scatter | m.at[[0, 1, 2], [0, 1, 2]].set(v)
as_strided_scatter | – | the backend chooses the memory layout
masked_scatter | x.masked_scatter(b, y)
unravel_index | np.unravel_index(3, x.shape)
embedding | burnpy.nn.functional.embedding(rows, m)
fill | x.full_like(value)

# In place
zero_ | x = x.zeros_like()
fill_ | x = x.full_like(value)
fill_diagonal_ | m = m.at[[0, 1, 2], [0, 1, 2]].set(value)
copy_ | x = y
set_ | x = y
resize_ | x = x.reshape(3, 2)
resize_as_ | x = x.reshape(y.shape)
as_strided_ | – | the backend chooses the memory layout
map_ | x = x + y | write it with operations, which are differentiated too
map2_ | x = x + y | write it with operations, which are differentiated too
apply_ | x = x.sin() | write it with operations, which are differentiated too
share_memory_ | – | threads share tensors as they are
sparse_resize_ | – | there are no sparse tensors
resize_as_sparse_ | – | there are no sparse tensors
sparse_resize_and_clear_ | – | there are no sparse tensors

# Memory, layouts and other devices
stride | – | the backend chooses the memory layout
storage_offset | – | the backend chooses the memory layout
storage | – | the backend chooses the memory layout
storage_type | – | the backend chooses the memory layout
untyped_storage | – | the backend chooses the memory layout
data_ptr | – | the backend chooses the memory layout
const_data_ptr | – | the backend chooses the memory layout
dim_order | – | the backend chooses the memory layout
layout | – | the backend chooses the memory layout
is_set_to | – | the backend chooses the memory layout
pin_memory | – | the backend chooses the memory layout
is_pinned | – | the backend chooses the memory layout
is_shared | – | threads share tensors as they are
record_stream | – | the backend chooses the memory layout
as_subclass | – | the three kinds of tensors are final classes
module_load | model.load_record(model.into_record())
is_meta | – | there are no tensors without values
is_nested | – | there are no nested tensors
to_padded_tensor | – | there are no nested tensors
is_distributed | – | not yet
coalesce | – | there are no sparse tensors
is_coalesced | – | there are no sparse tensors
is_sparse | – | there are no sparse tensors
is_sparse_csr | – | there are no sparse tensors
indices | – | there are no sparse tensors
values | – | there are no sparse tensors
ccol_indices | – | there are no sparse tensors
col_indices | – | there are no sparse tensors
crow_indices | – | there are no sparse tensors
row_indices | – | there are no sparse tensors
dense_dim | – | there are no sparse tensors
sparse_dim | – | there are no sparse tensors
sparse_mask | – | there are no sparse tensors
smm | – | there are no sparse tensors
sspaddmm | – | there are no sparse tensors
to_dense | x | there are no sparse tensors
to_sparse | – | there are no sparse tensors
to_sparse_bsc | – | there are no sparse tensors
to_sparse_bsr | – | there are no sparse tensors
to_sparse_coo | – | there are no sparse tensors
to_sparse_csc | – | there are no sparse tensors
to_sparse_csr | – | there are no sparse tensors
sparse_bsc_tensor | – | there are no sparse tensors
sparse_bsr_tensor | – | there are no sparse tensors
sparse_compressed_tensor | – | there are no sparse tensors
sparse_coo_tensor | – | there are no sparse tensors
sparse_csc_tensor | – | there are no sparse tensors
sparse_csr_tensor | – | there are no sparse tensors
dequantize | – | there are no quantized tensors
int_repr | – | there are no quantized tensors
is_quantized | – | there are no quantized tensors
q_per_channel_axis | – | there are no quantized tensors
q_per_channel_scales | – | there are no quantized tensors
q_per_channel_zero_points | – | there are no quantized tensors
q_scale | – | there are no quantized tensors
q_zero_point | – | there are no quantized tensors
qscheme | – | there are no quantized tensors
to_mkldnn | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mkldnn | – | the backends are NumPy (CPU) and CuPy (GPU)
is_ipu | – | the backends are NumPy (CPU) and CuPy (GPU)
is_maia | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mps | – | the backends are NumPy (CPU) and CuPy (GPU)
is_mtia | – | the backends are NumPy (CPU) and CuPy (GPU)
is_vulkan | – | the backends are NumPy (CPU) and CuPy (GPU)
is_xla | – | the backends are NumPy (CPU) and CuPy (GPU)
is_xpu | – | the backends are NumPy (CPU) and CuPy (GPU)
ipu | – | the backends are NumPy (CPU) and CuPy (GPU)
mtia | – | the backends are NumPy (CPU) and CuPy (GPU)
xpu | – | the backends are NumPy (CPU) and CuPy (GPU)
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
