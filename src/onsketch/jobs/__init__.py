"""What is done with learners: train, predict, compare, judge, and all that on a cluster."""
