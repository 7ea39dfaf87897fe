"""`Batched[B]`: a backend that computes with many examples at once, as `burnpy.func.vmap` does.

`burnpy.batching.batched` has the device and its primitives, `burnpy.batching.batch_methods` makes its operations from
the schema and the rules on the operations' declarations (`burnpy.backend.rules`).
"""
