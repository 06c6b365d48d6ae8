"""Training cells: one student's state, the pack that feeds several of them, their evaluation."""
