"""The tools of autodiff, made of tensors: custom derivatives, hooks, inspection, checkpointing, saved tensors."""
