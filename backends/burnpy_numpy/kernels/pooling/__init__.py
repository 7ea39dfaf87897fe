"""Max and average pooling: `pooling` chooses the kernel, and `overlapping` has the quicker ones for usual windows."""
