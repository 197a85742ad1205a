"""Training and sketching shard by shard; it lives in ``onsketch.jobs.cluster``."""

from onsketch.jobs.cluster import ClusterError, Engine, LocalEngine, Plan, Run, Status, fit, open_engine, sketch

__all__ = ["ClusterError", "Engine", "LocalEngine", "Plan", "Run", "Status", "fit", "open_engine", "sketch"]
