"""Max and average pooling: `windows` chooses the kernel; `overlapping` and `adaptive` are kinds of windows."""
