"""PyTorch's arithmetic, functions, comparisons, reductions and matrix products, and the arguments of its classes, with
what to write here instead."""

from __future__ import annotations

ROWS = """
# Arithmetic
add | x.add(y) | also `x + y`; takes `alpha=`
sub | x.sub(y) | also `x - y`; takes `alpha=`
subtract | x.sub(y)
mul | x.mul(y) | also `x * y`
multiply | x.mul(y)
div | x.div(y) | also `x / y`; takes `rounding_mode=`
divide | x.div(y)
true_divide | x.div(y)
floor_divide | x.floor_divide(y) | also `x // y`
remainder | x.remainder(y) | also `x % y`
fmod | x.fmod(y)
pow | x.pow(y) | also `x ** y`
neg | x.neg() | also `-x`
negative | x.neg()
positive | +x
abs | x.abs()
absolute | x.abs()
sign | x.sign()
sgn | z.sgn() | of complex numbers; of floats `x.sign()`
square | x.square()
reciprocal | x.reciprocal()
maximum | x.maximum(y)
minimum | x.minimum(y)
fmax | x.fmax(y)
fmin | x.fmin(y)
clamp | x.clamp(low, high) | bounds are numbers or tensors
clip | x.clamp(low, high)
clamp_min | x.clamp_min(low)
clamp_max | x.clamp_max(high)
addcmul | x.addcmul(y, y, value=value)
addcdiv | x.addcdiv(y, y, value=value)
lerp | x.lerp(y, value)
hypot | x.hypot(y)
gcd | i.gcd(j)
lcm | i.lcm(j)
copysign | x.copysign(y)
ldexp | x.ldexp(i) | of ints rounded once, also where `2 ** i` overflows
nextafter | x.nextafter(y)
frexp | x.frexp() | the mantissa is differentiable

# Functions of each element
exp | x.exp()
exp2 | x.exp2()
expm1 | x.expm1()
log | x.log()
log2 | x.log2()
log10 | x.log10()
log1p | x.log1p()
sqrt | x.sqrt()
rsqrt | x.rsqrt()
sin | x.sin()
cos | x.cos()
tan | x.tan()
sinh | x.sinh()
cosh | x.cosh()
tanh | x.tanh()
asin | x.asin()
arcsin | x.asin()
acos | x.acos()
arccos | x.acos()
atan | x.atan()
arctan | x.atan()
atan2 | x.atan2(y)
arctan2 | x.atan2(y)
asinh | x.asinh()
arcsinh | x.asinh()
acosh | x.acosh()
arccosh | x.acosh()
atanh | x.atanh()
arctanh | x.atanh()
deg2rad | x.deg2rad()
rad2deg | x.rad2deg()
sinc | x.sinc()
erf | x.erf()
erfc | x.erfc()
erfinv | x.erfinv()
lgamma | x.lgamma()
mvlgamma | x.mvlgamma(2)
digamma | x.digamma()
polygamma | x.polygamma(1) | `torch.polygamma(1, x)`
igamma | x.igamma(y) | also differentiable with respect to x
igammac | x.igammac(y) | also differentiable with respect to x
i0 | x.i0()
floor | x.floor()
ceil | x.ceil()
round | x.round(decimals=1)
trunc | x.trunc()
fix | x.trunc()
frac | x.frac()
nan_to_num | x.nan_to_num(0.0)
logit | p.logit()
xlogy | x.xlogy(y)
heaviside | x.heaviside(y) | `y` may be a number; it has a gradient, where PyTorch raises
logaddexp | x.logaddexp(y)
logaddexp2 | x.logaddexp2(y)
sigmoid | x.sigmoid()
relu | x.relu()
prelu | x.prelu(v[:1])
hardshrink | x.hardshrink()
celu | burnpy.nn.functional.celu(x)
selu | burnpy.nn.functional.selu(x)
rrelu | – | not yet
threshold | burnpy.nn.functional.threshold(x, low, value)
softmax | x.softmax(dim=1)
log_softmax | x.log_softmax(dim=1)
dropout | burnpy.nn.functional.dropout(x, 0.5)
angle | z.angle() | of complex numbers
real | z.real | of complex numbers
imag | z.imag | of complex numbers
isreal | z.imag == 0.0 | of complex numbers
conj | z.conj() | of complex numbers
conj_physical | z.conj() | of complex numbers
resolve_conj | z | conj() computes at once
is_conj | – | conj() computes at once
is_neg | – | neg() computes at once
resolve_neg | x | neg() computes at once
cdouble | x.complex("complex128")
cfloat | x.complex("complex64")
chalf | x.complex("complex64") | the narrowest
complex | burnpy.complex(x, x)
complex32 | x.complex("complex64") | the narrowest
complex64 | burnpy.complex64
complex128 | burnpy.complex128
polar | burnpy.polar(x, x)
view_as_complex | burnpy.view_as_complex(x[:, :2])
view_as_real | burnpy.view_as_real(z)

# Comparisons and logic
eq | x.eq(y) | also `x == y`
ne | x.ne(y) | also `x != y`
not_equal | x.ne(y)
lt | x.lt(y) | also `x < y`
less | x.lt(y)
le | x.le(y) | also `x <= y`
less_equal | x.le(y)
gt | x.gt(y) | also `x > y`
greater | x.gt(y)
ge | x.ge(y) | also `x >= y`
greater_equal | x.ge(y)
isnan | x.isnan()
isinf | x.isinf()
isfinite | x.isfinite()
isposinf | x == math.inf
isneginf | x == -math.inf
signbit | x.signbit()
equal | bool((x == y).all())
isclose | x.isclose(y)
allclose | x.allclose(y)
isin | (x.unsqueeze(-1) == v).any(-1)
logical_and | b.logical_and(c) | also `b & c`
logical_or | b.logical_or(c) | also `b | c`
logical_xor | b.logical_xor(c) | also `b ^ c`
logical_not | b.logical_not() | also `~b`
bitwise_and | i.bitwise_and(j) | also `i & j`
bitwise_or | i.bitwise_or(j) | also `i | j`
bitwise_xor | i.bitwise_xor(j) | also `i ^ j`
bitwise_not | i.bitwise_not() | also `~i`
bitwise_left_shift | i.bitwise_left_shift(j) | also `i << j`
bitwise_right_shift | i.bitwise_right_shift(j) | also `i >> j`

# Reductions
sum | x.sum(dim=1, keepdim=True)
nansum | x.nansum() | floats only
mean | x.mean(dim=1)
nanmean | x.nanmean() | floats only
prod | x.prod(dim=1)
amax | x.amax(dim=1)
amin | x.amin(dim=1)
aminmax | x.aminmax(dim=1)
max | x.max(dim=1) | of two tensors `x.maximum(y)`
min | x.min(dim=1) | of two tensors `x.minimum(y)`
argmax | x.argmax(dim=1)
argmin | x.argmin(dim=1)
any | b.any(dim=1)
all | b.all(dim=1)
count_nonzero | x.count_nonzero(dim=1)
var | x.var(dim=1, correction=1)
std | x.std(dim=1, correction=1)
var_mean | burnpy.var_mean(x, dim=1)
std_mean | burnpy.std_mean(x, dim=1)
norm | x.norm(dim=1) | of the elements as one vector; does not overflow
frobenius_norm | x.norm(dim=1)
dist | x.dist(y)
logsumexp | x.logsumexp(dim=1)
logcumsumexp | x.logcumsumexp(dim=1)
cumsum | x.cumsum(dim=1)
cumprod | x.cumprod(dim=1)
cummax | x.cummax(dim=1)
cummin | x.cummin(dim=1)
cumulative_trapezoid | burnpy.cumulative_trapezoid(y, x) | floats only
trapezoid | burnpy.trapezoid(y, x) | floats only
trapz | burnpy.trapezoid(y, x) | floats only
diff | x.diff(dim=1)
gradient | burnpy.gradient(x) | of samples; derivatives are burnpy.func.grad's
sum_to_size | x.sum(dim=0, keepdim=True)
median | x.median(dim=1) | the gradient goes to the chosen element, without `dim` too
nanmedian | x.nanmedian(dim=1) | the gradient goes to the chosen element, without `dim` too
quantile | x.quantile(0.5, dim=1) | also of 16-bit floats
nanquantile | x.nanquantile(0.5, dim=1) | also of 16-bit floats
mode | x.mode(dim=1)
kthvalue | x.kthvalue(2, dim=1) | of equal elements the first comes first
sort | x.sort(dim=1) | always stable
argsort | x.argsort(dim=1) | always stable
msort | x.msort()
topk | x.topk(2, dim=1) | always sorted; of equal elements the first comes first
unique | x.unique() | always sorted; differentiable
unique_consecutive | i.unique_consecutive() | takes `return_inverse=`, `return_counts=`, `dim=`
bincount | i[0].bincount() | differentiable with respect to its weights
histc | x.histc(4) | NaN is not counted
histogram | x.histogram(4) | differentiable with respect to its weights
histogramdd | burnpy.histogramdd(x, 4) | takes edges that ascend alone; differentiable with respect to its weights
bucketize | burnpy.bucketize(x, v)
searchsorted | burnpy.searchsorted(v, x) | NaN is the largest, as in `sort`
cov | x.cov() | floats only
corrcoef | x.corrcoef() | floats only
hash_tensor | – | not yet
renorm | x.renorm(2.0, 0, high)

# Products of matrices
matmul | x.matmul(m) | also `x @ m`
mm | x.mm(m)
bmm | x[None].bmm(m[None])
mv | x.mv(v)
dot | v.dot(v)
inner | x @ y.mT | `x.inner()` is x on the inner backend
vdot | v.dot(v)
outer | v.outer(v)
ger | v.outer(v)
addmm | x.addmm(x @ m, m)
addmv | v.addmv(m, v)
addr | m.addr(v, v)
addbmm | m.addbmm(m.unsqueeze(0), m.unsqueeze(0))
baddbmm | x[None].baddbmm(x[None], m[None])
chain_matmul | burnpy.chain_matmul(x, m, m)
kron | x.kron(m)
cross | m.cross(m, dim=1)
tensordot | burnpy.tensordot(x, m, dims=1)
einsum | burnpy.einsum("ij,jk->ik", x, m)
cdist | burnpy.cdist(x, y)
pdist | burnpy.pdist(x)
trace | m.trace()
adjoint | x.mT | of complex numbers `z.mH`
H | x.T | of complex numbers `z.mH`
mH | z.mH | of complex numbers
bilinear | burnpy.nn.functional.bilinear(x, y, m.expand((4, 3, 3)))
cosine_similarity | burnpy.cosine_similarity(x, y)
pairwise_distance | burnpy.pairwise_distance(x, y)
matrix_power | m.matrix_power(3)
matrix_exp | m.matrix_exp()
det | m.det()
logdet | m.logdet()
slogdet | m.slogdet()
inverse | m.inverse()
pinverse | burnpy.linalg.pinv(x)
cholesky | burnpy.linalg.cholesky(m)
cholesky_inverse | burnpy.linalg.cholesky_inverse(m)
cholesky_solve | burnpy.linalg.cholesky_solve(m, m)
qr | burnpy.linalg.qr(x)
geqrf | burnpy.linalg.qr(x) | not yet in the form of reflectors
orgqr | burnpy.linalg.qr(x) | not yet in the form of reflectors
ormqr | burnpy.linalg.qr(x) | not yet in the form of reflectors
svd | burnpy.linalg.svd(x) | with Vh, the transpose of V
svd_lowrank | burnpy.linalg.svd(x) | not yet by random projections
pca_lowrank | burnpy.linalg.svd(x) | not yet by random projections
eig | burnpy.linalg.eig(m) | whose results are complex; of symmetric matrices burnpy.linalg.eigh(m) has real ones
symeig | burnpy.linalg.eigh(m)
lu | burnpy.linalg.lu_factor(m) | or `burnpy.linalg.lu(m)` for P, L and U
lu_solve | burnpy.linalg.lu_solve(*burnpy.linalg.lu_factor(m), m)
lu_unpack | burnpy.linalg.lu(m) | of the matrix itself
lstsq | burnpy.linalg.lstsq(m, m) | the matrices are the first argument
solve | burnpy.linalg.solve(m, v) | the matrices are the first argument
triangular_solve | burnpy.linalg.solve_triangular(m, m, upper=True) | the matrices are the first argument
nuclear_norm | burnpy.linalg.matrix_norm(x, ord="nuc")
stft | burnpy.fft.stft(v, 2) | its result is a ComplexTensor
istft | burnpy.fft.istft(burnpy.fft.stft(v, 2), 2)
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
MISSING = "(missing)"
"""The key of the suggestion for missing arguments."""

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
    "TransformerStack": {
        "num_layers": _AS_CALLED.format("count"),
        MISSING: "give the sizes of a layer, as in TransformerEncoder(2, 64, 8, device=NumPy): count, size, heads",
    },
    "TransformerDecoder": {"decoder_layer": "give the sizes of a layer: TransformerDecoder(count, size, heads, …)"},
    "TransformerEncoder": {"encoder_layer": "give the sizes of a layer: TransformerEncoder(count, size, heads, …)"},
    "Crop": {"padding": "Shift(pixels) moves images of their size, as torchvision's RandomCrop with padding does"},
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
