"""The online learners: one loop (predict, see the slope, absorb a row, step) over many kinds of state."""
