"""What every room builds on: losses, geometries, tolerances, random draws, errors."""
