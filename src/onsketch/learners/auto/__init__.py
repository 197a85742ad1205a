"""One learner without tuning for two classes, many classes and numbers; see ``docs/explanation/auto.md``."""
