"""Plots and self-contained pages; needs the extra ``plot``."""
