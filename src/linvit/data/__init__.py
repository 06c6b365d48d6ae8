"""Data sets: what they are (specs), where they come from (fetch), how they are kept (store)."""
