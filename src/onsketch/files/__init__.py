"""State on disk: arrays, and the model files they are kept in."""
