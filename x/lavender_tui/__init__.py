"""lavender-tui: see every training run, and resume one on another world_size."""

__version__ = "0.1.0"
