"""Learners as estimators of other libraries: scikit-learn and River."""
