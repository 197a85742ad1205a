// The axes of layers whose sketches the kernels refresh. Each has room for Z, of LENGTH rows: its directions V, what
// the gradient makes of those of the other axis, GU, and both multiplied by GGᵀ, 4·RANK columns in all.
// Where `wait` is not zero, nothing is due and the kernels of a refresh do nothing.

enum Side { OWNER, LENGTH, SIDE_RANK, DIRECTIONS, ENERGY, ESCAPED, TOTAL, REFRESHES, ROOM, PART, PARTS, SIDE_FIELDS };

__device__ inline long long side_field(const long long* sides, int side, Side name)
{
    return sides[(long long)side * SIDE_FIELDS + name];
}

// Rows of Z that a thread block works on.
__device__ inline int part_rows(int rank)
{
    return 1024 / rank;
}
