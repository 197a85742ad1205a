"""From named values to rows of numbers: one schema and one encoder for every source of tables and objects."""
