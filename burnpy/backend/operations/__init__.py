"""The declarations of all operations, a file for each family; `burnpy.backend.Backend` is their sum.

A required operation has no body. A derived operation's body is its default, made of other operations, so that it is
differentiable wherever those are. Inside a default, index arithmetic goes through ``self.discrete``. Binary operations
broadcast, promote as `burnpy.backend.dtypes.result_type` says, and take a Python number as second operand.
Operations whose algebra is not structural return fresh memory, but `detach`, `sum_to` and `clamp` may return what they
are given where that is the result; no operation changes its arguments, except that
``accumulate*`` may reuse their first.
"""
