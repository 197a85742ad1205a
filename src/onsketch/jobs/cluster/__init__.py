"""Training of learners, and sketching, shard by shard on a cluster.

    manifest of shards  →  pure tasks  →  merges in a fixed tree  →  one model

A shard is a file. In each round every shard of a wave starts from the last merged model, predicts and learns its next
blocks, and the results are merged pairwise by the index of the shard, not by the order of arrival. A task
is a pure function of its arguments. One that runs twice, or again after its machine has died, gives the same bits,
and so does the run.

``engine.py`` is the interface of engines, and one that runs tasks in this process; ``ray_engine.py`` runs them on Ray.
"""

from onsketch.jobs.cluster.engine import ClusterError, Engine, LocalEngine, open_engine
from onsketch.jobs.cluster.plan import Plan
from onsketch.jobs.cluster.run import Run, fit
from onsketch.jobs.cluster.sketching import sketch
from onsketch.jobs.cluster.tree import Status

__all__ = ["ClusterError", "Engine", "LocalEngine", "Plan", "Run", "Status", "fit", "open_engine", "sketch"]
