"""Max and average pooling: `windows` chooses the kernel; `tiled` and `overlapping` are kinds of windows.

`adaptive` has windows of different sizes, `indices` those of maxima.
"""
