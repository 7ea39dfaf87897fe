"""Convolution and its gradients.

`conv2d` chooses: vectors are neighbours in a row, with the windows of `tiles`, or neighbouring channels, by
`channel_lanes`, which reorders arrays to `channel_blocks` and runs the templates of `blocked`, and its own for single
channels, with the tables of `tiles`. `weight_gradients` has the gradients of weights for both. `depthwise` convolves
each plane by itself, `volumes` runs the kernels of `conv2d` on the planes of volumes, and `few_windows` is for plans of
single images.
"""
