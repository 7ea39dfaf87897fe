"""The names in PyTorch's packages, of modules, functions and optimizers above all, with what to write here instead."""

from __future__ import annotations

BURNPY = """
distributions | – | not yet
models | – | not yet
"""

NN = """
ReLU | Relu
GELU | Gelu
SiLU | Silu
ReLU6 | Relu6
LeakyReLU | LeakyRelu
PReLU | PRelu
ELU | Elu
CELU | Celu
SELU | Selu
GLU | Glu
LSTM | Lstm
LSTMCell | LstmCell
GRU | Gru
GRUCell | GruCell
RNN | Rnn
RNNCell | RnnCell
MultiheadAttention | MultiHeadAttention
BatchNorm1d | BatchNorm
BatchNorm2d | BatchNorm
BatchNorm3d | BatchNorm
InstanceNorm1d | InstanceNorm
InstanceNorm2d | InstanceNorm
InstanceNorm3d | InstanceNorm
RMSNorm | RmsNorm
ConstantPad1d | ConstantPad | with dims=1
ConstantPad2d | ConstantPad
ConstantPad3d | ConstantPad | with dims=3
ZeroPad1d | ZeroPad | with dims=1
ZeroPad2d | ZeroPad
ZeroPad3d | ZeroPad | with dims=3
ReflectionPad1d | ReflectionPad | with dims=1
ReflectionPad2d | ReflectionPad
ReflectionPad3d | ReflectionPad | with dims=3
ReplicationPad1d | ReplicationPad | with dims=1
ReplicationPad2d | ReplicationPad
ReplicationPad3d | ReplicationPad | with dims=3
CircularPad1d | CircularPad | with dims=1
CircularPad2d | CircularPad
CircularPad3d | CircularPad | with dims=3
UpsamplingNearest2d | Upsample
UpsamplingBilinear2d | Upsample | with mode="bilinear", align_corners=True
SyncBatchNorm | BatchNorm | it normalizes by a rank's own samples, and its running statistics are of all ranks
NLLLoss | NllLoss
MSELoss | MseLoss
BCEWithLogitsLoss | BceWithLogitsLoss
BCELoss | BceLoss
KLDivLoss | KlDivLoss
PoissonNLLLoss | PoissonNllLoss
GaussianNLLLoss | GaussianNllLoss
Parameter | Param
Container | Sequential
ModuleList | a list, as a field of a Module
ModuleDict | a dict, as a field of a Module
ParameterList | a list of Param, as a field of a Module
ParameterDict | a dict of Param, as a field of a Module
Unflatten | x.reshape(2, 3, 1) | in forward()
UninitializedParameter | Param | sizes are given
UninitializedBuffer | Buffer | sizes are given
LazyLinear | Linear | sizes are given
DataParallel | burnpy.distributed.DataParallel
utils | burnpy.optim.clip_by_global_norm(grads, 1.0) | clipping is in burnpy.optim
"""

FUNCTIONAL = """
one_hot | i.one_hot(3)
upsample | interpolate(image, 4)
upsample_nearest | interpolate(image, 4)
upsample_bilinear | interpolate(image, 4, mode="bilinear", align_corners=True)
multi_head_attention_forward | burnpy.nn.MultiHeadAttention
"""

INIT = """
calculate_gain | gain
constant_ | Constant
dirac_ | – | not yet
eye_ | – | not yet
kaiming_normal_ | KaimingNormal
kaiming_uniform_ | KaimingUniform
normal_ | Normal
ones_ | Ones
orthogonal_ | Orthogonal
sparse_ | – | not yet
trunc_normal_ | TruncatedNormal
uniform_ | Uniform
xavier_normal_ | XavierNormal
xavier_uniform_ | XavierUniform
zeros_ | Zeros
"""

OPTIM = """
SGD | Sgd
RMSprop | RmsProp
Adagrad | AdaGrad
ConstantLR | ConstantLr
ExponentialLR | ExponentialLr
LinearLR | LinearLr
MultiStepLR | MultiStepLr
OneCycleLR | OneCycleLr
PolynomialLR | PolynomialLr
SequentialLR | SequentialLr
StepLR | StepLr
CosineAnnealingLR | CosineLr
CosineAnnealingWarmRestarts | CosineRestartsLr
ChainedScheduler | ProductLr
LRScheduler | LrSchedule
LambdaLR | a subclass of LrSchedule with a method at(step)
MultiplicativeLR | a subclass of LrSchedule with a method at(step)
CyclicLR | CyclicLr
ReduceLROnPlateau | ReduceOnPlateau | observe(loss) gives the next, whose lr is the rate
Adadelta | AdaDelta
LBFGS | LBfgs | its minimize(rate, model, loss_and_grads) takes a function of the model
lr_scheduler | StepLr, CosineLr and the like, in burnpy.optim itself
swa_utils | Ema | a value: ema = ema.update(model)
"""

FUNC = """
vmap | jacobian(losses)(model) | for gradients of samples; else write for batches, as all operations broadcast
grad_and_value | value_and_grad | it gives the value first
functional_call | grad(loss)(model) | modules are trees
functionalize | – | everything is functional already
stack_module_state | burnpy.stack([x, y]) | of tensors
rearrange | x.reshape(2, 3, 1).permute(2, 0, 1) | no pattern language
debug_unwrap | x.inner()
replace_all_batch_norm_modules_ | – | a forward pass changes no state
"""

LINALG = """
eig | eigh(x) | of symmetric matrices; of others they are complex, and there are no complex numbers
eigvals | eigvalsh(x) | of symmetric matrices; of others they are complex, and there are no complex numbers
cholesky_ex | cholesky(x) | which raises an error
inv_ex | inv(x) | which raises an error
solve_ex | solve(x, y) | which raises an error
lu_factor_ex | lu_factor(x) | which does not raise
ldl_factor | lu_factor(x) | not yet
ldl_factor_ex | lu_factor(x) | not yet
ldl_solve | lu_solve(*lu_factor(x), y) | not yet
householder_product | qr(x) | not yet
tensorinv | inv(x.reshape(6, 6)) | not yet
tensorsolve | solve(x.reshape(6, 6), v) | not yet
vander | v.unsqueeze(-1) ** Tensor.arange(3, device=device) | not yet
vecdot | (x * y).sum(-1)
matmul | x @ y
"""

AUTODIFF = """
Variable | x.require_grad() | a tensor is all that is needed
variable | x.require_grad() | a tensor is all that is needed
functional | burnpy.func
set_multithreading_enabled | – | a pass runs in the thread that calls it
profiler | burnpy.backend.Profiled
forward_ad | make_dual, unpack_dual
gradcheck | burnpy.testing.gradcheck
gradgradcheck | burnpy.testing.gradgradcheck
"""

DATA = """
DataLoader | Loader(data, collate(device=device), batch_size=64)
TensorDataset | ArrayDataset(x=images, y=labels)
ConcatDataset | data + other
ChainDataset | a Stream that reads one after another
StackDataset | data.zip(other)
Subset | data.subset(indices)
IterableDataset | Stream
random_split | data.split(0.8, seed=0)
default_collate | collate(device=device)
default_convert | collate(device=device)
get_worker_info | – | a sample does not depend on the worker; BatchRandom has its random numbers
BatchSampler | Sampler | its plan() decides what goes into a batch
SequentialSampler | InOrder
RandomSampler | Shuffled
SubsetRandomSampler | Loader(data.subset(indices), collate(device=device), batch_size=64, shuffle=True)
WeightedRandomSampler | Weighted(weights, n=100)
DistributedSampler | loader.shard(rank, size)
"""

DISTRIBUTED = """
init_process_group | Group.world()
destroy_process_group | – | a group ends with the program
new_group | – | not yet: a group is all ranks
get_rank | Group.world().rank
get_world_size | Group.world().size
is_initialized | Group.world().size > 1
all_reduce | group.sum(value) | of gradients, group.mean(grads, weight=len(batch))
reduce | group.sum(value)
all_gather | group.gather(value)
all_gather_object | group.gather(value)
gather_object | group.gather(value)
broadcast | group.broadcast(value)
broadcast_object_list | group.broadcast(value)
barrier | group.barrier()
DistributedDataParallel | DataParallel(group) | for a learner; in a loop, group.backward(loss, model, weight=len(batch))
DistributedSampler | loader.shard(group.rank, group.size)
ZeroRedundancyOptimizer | ZeroRedundancy(AdamW(), group)
FullyShardedDataParallel | – | not yet; ZeroRedundancy divides the states of an optimizer
"""
