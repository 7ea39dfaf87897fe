"""Max and average pooling: `windows` chooses the kernel; `tiled` and `overlapping` are kinds of windows."""
