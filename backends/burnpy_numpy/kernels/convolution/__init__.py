"""Convolution and its gradients.

`images` chooses: vectors are neighbours in a row, with the tables of `windows`, or neighbouring channels, by
`channel_lanes`, which reorders arrays to `channel_blocks` and runs the templates `blocked`, `blocked_depthwise` and
`blocked_weight_gradient` with the tables of `tiles`. `volumes` runs the kernels of `images` on the planes of volumes.
"""
