"""Looking at a graph: nodes as views, as drawings, and what they hold. Nothing here changes a graph or keeps one."""
