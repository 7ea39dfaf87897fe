"""Control flow that depends on values: `scan`, `cond` and `while_loop`, in Python, recorded, and in batches."""
