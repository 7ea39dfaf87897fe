"""Convolution and its gradients.

`conv2d` chooses: vectors are neighbours in a row, with the windows of `tiles`, or neighbouring channels, by
`channel_lanes`, which reorders arrays to `channel_blocks` and runs the templates of `blocked`, and its own for single
channels, with the tables of `tiles`. `weight_gradients` has the gradients of weights for both, and `volumes` runs the
kernels of `conv2d` on the planes of volumes. `depthwise_and_few_windows` convolves each plane by itself, and single
images in plans.
"""
