"""Learning rate schedules: pure functions of the step, ``schedule(step)``, as plain values.

They have no state: to resume training, save the number of the step. They can be pickled, compared, and multiplied.
"""
