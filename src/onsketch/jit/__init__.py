"""How loops are compiled and kept on disk, and the small algebra that runs inside them."""
