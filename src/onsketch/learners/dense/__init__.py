"""Learners that can only be dense: exact matrices, random maps of d coordinates, composite terms in a full metric."""
