"""Schedules of the learning rate: pure functions of the step, ``schedule(step)``, as plain values.

What has to be saved of one to go on later is the number of the step. They can be pickled, compared, and multiplied.
"""
