"""`compiled`: recording a function's call, what its plan depends on, and replaying the plan."""
