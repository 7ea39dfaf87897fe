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
fmod | x.fmod(y)
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
ldexp | x * 2.0 ** y
nextafter | – | not yet
frexp | – | not yet

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
mvlgamma | – | not yet
digamma | x.digamma()
polygamma | x.polygamma(1) | `torch.polygamma(1, x)`
igamma | – | not yet
igammac | – | not yet
i0 | – | not yet
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
logaddexp2 | x.mul(math.log(2.0)).logaddexp(y * math.log(2.0)) / math.log(2.0)
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
nansum | burnpy.where(x.isnan(), 0.0, x).sum()
mean | x.mean(dim=1)
nanmean | burnpy.where(x.isnan(), 0.0, x).sum() / x.isnan().logical_not().sum().float()
prod | x.prod(dim=1)
amax | x.amax(dim=1)
amin | x.amin(dim=1)
aminmax | x.amin(dim=1), x.amax(dim=1)
max | x.max(dim=1) | of two tensors `x.maximum(y)`
min | x.min(dim=1) | of two tensors `x.minimum(y)`
argmax | x.argmax(dim=1)
argmin | x.argmin(dim=1)
any | b.any(dim=1)
all | b.all(dim=1)
count_nonzero | (x != 0.0).sum(dim=1)
var | x.var(dim=1, correction=1)
std | x.std(dim=1, correction=1)
var_mean | x.var(dim=1), x.mean(dim=1)
std_mean | x.std(dim=1), x.mean(dim=1)
norm | x.square().sum(dim=1).sqrt() | not yet as one operation, of which the gradient at 0 is 0
frobenius_norm | x.square().sum().sqrt() | not yet as one operation, of which the gradient at 0 is 0
dist | (x - y).square().sum().sqrt() | not yet as one operation, of which the gradient at 0 is 0
logsumexp | x.logsumexp(dim=1)
logcumsumexp | x.exp().cumsum(dim=1).log() | not yet as one operation, which does not overflow
cumsum | x.cumsum(dim=1)
cumprod | x.log().cumsum(dim=1).exp() | not yet; so for positive elements
cummax | – | not yet
cummin | – | not yet
cumulative_trapezoid | ((x[:, 1:] + x[:, :-1]) / 2.0).cumsum(dim=1)
trapezoid | ((x[:, 1:] + x[:, :-1]) / 2.0).sum(dim=1)
trapz | ((x[:, 1:] + x[:, :-1]) / 2.0).sum(dim=1)
diff | x[:, 1:] - x[:, :-1]
gradient | (x[:, 2:] - x[:, :-2]) / 2.0 | of samples; derivatives are burnpy.func.grad's
sum_to_size | x.sum(dim=0, keepdim=True)
median | – | not yet
nanmedian | – | not yet
quantile | – | not yet
nanquantile | – | not yet
mode | – | not yet
kthvalue | – | not yet
sort | – | not yet
argsort | – | not yet
msort | – | not yet
topk | – | not yet; the largest is `x.max(dim)`
unique | – | not yet; `np.unique(x.to_numpy())` has no gradient to lose
unique_consecutive | – | not yet; `np.unique(x.to_numpy())` has no gradient to lose
bincount | i.flatten().one_hot(3).sum(dim=0)
histc | – | not yet; `np.histogram(x.to_numpy())`
histogram | – | not yet; `np.histogram(x.to_numpy())`
histogramdd | – | not yet; `np.histogramdd(x.to_numpy())`
bucketize | (x.unsqueeze(-1) > v).sum(-1)
searchsorted | (x.unsqueeze(-1) > v).sum(-1)
cov | – | not yet
corrcoef | – | not yet
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
addmm | x.addmm(x @ m, m)
addmv | x @ v + x[:, 0]
addr | m + v.unsqueeze(1) * v
addbmm | y + x @ m
baddbmm | x[None].baddbmm(x[None], m[None])
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
