"""Streams to learn from."""

from onsketch.data.synthetic import a9a_like, ill_conditioned, live_features, low_rank_regression, text_like

__all__ = ["a9a_like", "ill_conditioned", "live_features", "low_rank_regression", "text_like"]
