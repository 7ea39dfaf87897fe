"""Graph inspection: views of nodes, drawings and memory reports. Nothing here changes a graph or keeps it alive."""
