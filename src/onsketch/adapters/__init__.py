"""The learners as other libraries want them: scikit-learn and River."""
