"""Jobs on learners: train, predict, compare and judge, in one process, on a cluster and as a service."""
