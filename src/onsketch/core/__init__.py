"""Functions that all packages share: losses, geometries, tolerances, random draws, errors."""
