"""Pages and notebooks in a real browser."""
