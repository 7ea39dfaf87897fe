"""Plans of compiled steps: recordings, rewritten and fused, whose values lie in one block of memory.

`burnpy.backend.plans.plan` is the place to start; its `Plan` replays a recording.
"""
