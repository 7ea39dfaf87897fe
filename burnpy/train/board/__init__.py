"""A page that shows runs from their logs: ``python -m burnpy.train.board runs/``."""
