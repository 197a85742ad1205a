"""Learners whose summary is a sketch with a sparse form: one driver, a packed table, and a file per sketch."""
