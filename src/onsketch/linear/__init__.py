"""Online linear learners: one algorithm, many combinations of sketch, geometry and update."""
