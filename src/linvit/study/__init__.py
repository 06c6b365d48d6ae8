"""A study: its config, the grid of cells it spans, their results, statistics, tables, figures."""
