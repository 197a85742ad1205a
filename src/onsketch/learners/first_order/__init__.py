"""Learners that keep a few numbers per feature: gradient descent, AdaGrad, Adam, FTRL, AROW."""
