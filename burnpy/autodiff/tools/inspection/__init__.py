"""Views of graphs: operations, lines, memory and drawings, and the search for NaN."""
