"""Beyond one machine: learners trained, and sketches made, shard by shard on a cluster.

    manifest of shards  →  pure tasks  →  merges in a fixed tree  →  one model

A shard is a file. In each round every shard of a wave starts from the last merged model, predicts and learns its next
blocks, and the results are merged pairwise by the place of the shard, whatever the order in which they arrive. A task
is a pure function of its arguments, so that one which runs twice, or again elsewhere after its machine has died,
gives the same bits, and so does the whole.

``engine.py`` is the seam to whatever runs the tasks: ``local.py`` runs them here, one after the other,
``ray_engine.py`` on Ray.
"""

from onsketch.jobs.cluster.engine import ClusterError, Engine, open_engine
from onsketch.jobs.cluster.fitting import fit
from onsketch.jobs.cluster.local import LocalEngine
from onsketch.jobs.cluster.plan import Plan
from onsketch.jobs.cluster.run import Run
from onsketch.jobs.cluster.sketching import sketch
from onsketch.jobs.cluster.watching import Status

__all__ = ["ClusterError", "Engine", "LocalEngine", "Plan", "Run", "Status", "fit", "open_engine", "sketch"]
