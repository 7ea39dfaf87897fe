"""PyTorch's arithmetic, functions, comparisons, reductions and matrix products, with what to write here instead."""

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
fmod | x - y * x.div(y, rounding_mode="trunc") | not yet as one operation
pow | x.pow(y) | also `x ** y`
neg | x.neg() | also `-x`
negative | x.neg()
positive | +x
abs | x.abs()
absolute | x.abs()
sign | x.sign()
sgn | x.sign()
square | x.square()
reciprocal | x.reciprocal()
maximum | x.maximum(y)
minimum | x.minimum(y)
fmax | burnpy.where(y.isnan(), x, burnpy.where(x.isnan(), y, x.maximum(y)))
fmin | burnpy.where(y.isnan(), x, burnpy.where(x.isnan(), y, x.minimum(y)))
clamp | x.clamp(low, high) | bounds are numbers or tensors
clip | x.clamp(low, high)
clamp_min | x.clamp_min(low)
clamp_max | x.clamp_max(high)
addcmul | x + value * y * y
addcdiv | x + value * y / y
lerp | x + value * (y - x)
hypot | (x * x + y * y).sqrt() | not yet as one operation
gcd | – | not yet
lcm | – | not yet
copysign | x.abs() * y.sign() | not yet for a y of 0
ldexp | x * 2.0 ** y
nextafter | – | not yet
frexp | – | not yet

# Functions of each element
exp | x.exp()
exp2 | 2.0 ** x
expm1 | x.expm1()
log | x.log()
log2 | x.log() / math.log(2.0)
log10 | x.log() / math.log(10.0)
log1p | x.log1p()
sqrt | x.sqrt()
rsqrt | x.rsqrt()
sin | x.sin()
cos | x.cos()
tan | x.sin() / x.cos()
sinh | (x.exp() - (-x).exp()) / 2.0
cosh | (x.exp() + (-x).exp()) / 2.0
tanh | x.tanh()
asin | – | not yet
arcsin | – | not yet
acos | – | not yet
arccos | – | not yet
atan | – | not yet
arctan | – | not yet
atan2 | – | not yet
arctan2 | – | not yet
asinh | – | not yet
arcsinh | – | not yet
acosh | – | not yet
arccosh | – | not yet
atanh | – | not yet
arctanh | – | not yet
deg2rad | x * (math.pi / 180.0)
rad2deg | x * (180.0 / math.pi)
sinc | – | not yet
erf | x.erf()
erfc | 1.0 - x.erf() | not yet as one operation, which keeps small values exact
erfinv | – | not yet
lgamma | – | not yet
mvlgamma | – | not yet
digamma | – | not yet
polygamma | – | not yet
igamma | – | not yet
igammac | – | not yet
i0 | – | not yet
floor | x.floor()
ceil | x.ceil()
round | x.round(decimals=1)
trunc | x.div(1.0, rounding_mode="trunc")
fix | x.div(1.0, rounding_mode="trunc")
frac | x - x.div(1.0, rounding_mode="trunc")
nan_to_num | burnpy.where(x.isnan(), 0.0, x) | and `x.isinf()` for the infinities
logit | p.log() - (1.0 - p).log()
xlogy | burnpy.where(x == 0.0, 0.0, x * y.log())
heaviside | burnpy.where(x == 0.0, y, (x > 0.0).float())
logaddexp | burnpy.stack([x, y]).logsumexp(0)
logaddexp2 | – | not yet
sigmoid | x.sigmoid()
relu | x.relu()
prelu | burnpy.where(x > 0.0, x, value * x) | not yet as a layer
hardshrink | burnpy.where(x.abs() > 0.5, x, 0.0)
celu | burnpy.where(x > 0.0, x, x.expm1())
selu | – | not yet
rrelu | – | not yet
threshold | burnpy.where(x > low, x, value)
softmax | x.softmax(dim=1)
log_softmax | x.log_softmax(dim=1)
dropout | burnpy.nn.functional.dropout(x, 0.5)
angle | – | there are no complex numbers
real | x | there are no complex numbers
imag | x.zeros_like() | there are no complex numbers
isreal | x.ones_like() == 1.0 | always: there are no complex numbers
conj | x | there are no complex numbers
conj_physical | x | there are no complex numbers
resolve_conj | x | there are no complex numbers
is_conj | – | there are no complex numbers
is_neg | – | there are no complex numbers
resolve_neg | x | there are no complex numbers
cdouble | – | there are no complex numbers
cfloat | – | there are no complex numbers
chalf | – | there are no complex numbers
complex | – | there are no complex numbers
complex32 | – | there are no complex numbers
complex64 | – | there are no complex numbers
complex128 | – | there are no complex numbers
polar | – | there are no complex numbers
view_as_complex | – | there are no complex numbers
view_as_real | – | there are no complex numbers

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
signbit | x < 0.0 | -0.0 is not below 0
equal | bool((x == y).all())
isclose | (x - y).abs() <= 1e-8 + 1e-5 * y.abs()
allclose | bool(((x - y).abs() <= 1e-8 + 1e-5 * y.abs()).all())
isin | (x.unsqueeze(-1) == v).any(-1)
logical_and | b.logical_and(c) | also `b & c`
logical_or | b.logical_or(c) | also `b | c`
logical_xor | b.logical_xor(c) | also `b ^ c`
logical_not | b.logical_not() | also `~b`
bitwise_and | i.bitwise_and(j) | also `i & j`
bitwise_or | i.bitwise_or(j) | also `i | j`
bitwise_xor | i.bitwise_xor(j) | also `i ^ j`
bitwise_not | i.bitwise_not() | also `~i`
bitwise_left_shift | i * 2 ** j
bitwise_right_shift | i // 2 ** j

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
gradient | (x[:, 2:] - x[:, :-2]) / 2.0 | of samples; derivatives are burnpy.func.grad's
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
unique_consecutive | – | not yet; `np.unique(x.to_numpy())` has no gradient to lose
bincount | i[0].bincount() | differentiable by its weights
histc | x.histc(4) | NaN is not counted
histogram | – | not yet; `np.histogram(x.to_numpy())`
histogramdd | – | not yet; `np.histogramdd(x.to_numpy())`
bucketize | burnpy.bucketize(x, v)
searchsorted | burnpy.searchsorted(v, x) | NaN is the largest, as in `sort`
cov | x.cov() | floats only
corrcoef | x.corrcoef() | floats only
hash_tensor | – | not yet
renorm | – | not yet

# Products of matrices
matmul | x.matmul(m) | also `x @ m`
mm | x @ m
bmm | x @ m | any dimensions before the last two
mv | x @ v
dot | v @ v
inner | x @ y.mT | `x.inner()` is x on the inner backend
vdot | v @ v
outer | v.unsqueeze(1) * v
ger | v.unsqueeze(1) * v
addmm | y + x @ m
addmv | x @ v + x[:, 0]
addr | m + v.unsqueeze(1) * v
addbmm | y + x @ m
baddbmm | y + x @ m
chain_matmul | x @ m @ m
kron | – | not yet
cross | – | not yet
tensordot | x.reshape(2, 3) @ m.reshape(3, 3) | dimensions that are summed over go next to each other
einsum | – | not yet; `x @ m`, sums and permutations do it
cdist | (x.unsqueeze(1) - m).square().sum(-1).sqrt() | not yet as one operation, with gradient 0 at equal points
pdist | – | not yet
trace | (m * Tensor.eye(3, device=device)).sum()
adjoint | x.mT | there are no complex numbers
H | x.T | there are no complex numbers
mH | x.mT | there are no complex numbers
bilinear | – | not yet
cosine_similarity | – | not yet
pairwise_distance | – | not yet
matrix_power | m @ m @ m
matrix_exp | – | not yet: with linalg
det | – | not yet: with linalg
logdet | – | not yet: with linalg
slogdet | – | not yet: with linalg
inverse | – | not yet: with linalg
pinverse | – | not yet: with linalg
cholesky | – | not yet: with linalg
cholesky_inverse | – | not yet: with linalg
cholesky_solve | – | not yet: with linalg
qr | – | not yet: with linalg
geqrf | – | not yet: with linalg
orgqr | – | not yet: with linalg
ormqr | – | not yet: with linalg
svd | – | not yet: with linalg
svd_lowrank | – | not yet: with linalg
pca_lowrank | – | not yet: with linalg
eig | – | not yet: with linalg
symeig | – | not yet: with linalg
lu | – | not yet: with linalg
lu_solve | – | not yet: with linalg
lu_unpack | – | not yet: with linalg
lstsq | – | not yet: with linalg
solve | – | not yet: with linalg
triangular_solve | – | not yet: with linalg
nuclear_norm | – | not yet: with linalg
stft | – | not yet: with fft
istft | – | not yet: with fft
"""
"""One line for each name: the code to write here, or – if there is none, and the difference."""
