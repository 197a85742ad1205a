// What the kernels of Sketchy share: layers of float32 numbers, each thread block working on CHUNK of them.

enum Layer {
    WEIGHT, MOMENTUM, SQUARES, DIRECTION, STEP, NUMBERS, FIRST, COUNT,
    ROWS, COLUMNS, ROW_BLOCKS, COLUMN_BLOCKS, RANK, LEFT, RIGHT, STRIP, STRIPS, LEFT_ROOM, RIGHT_ROOM,
    BATCH, PITCH, SIZE, LEFT_GAINS, RIGHT_GAINS, SPAN, SPANS,  // of layers whose direction is orthogonal
    LAYER_FIELDS
};

__device__ inline long long layer_field(const long long* table, int layer, Layer name)
{
    return table[(long long)layer * LAYER_FIELDS + name];
}

struct Part {
    int layer, count;   // whose numbers, and how many
    long long begin;
};

__device__ inline Part part_of(const long long* table, const int* owners)
{
    Part p;
    p.layer = owners[blockIdx.x];
    p.begin = (long long)(blockIdx.x - layer_field(table, p.layer, FIRST)) * CHUNK;
    const long long left = layer_field(table, p.layer, NUMBERS) - p.begin;
    p.count = (int)(left < CHUNK ? left : CHUNK);
    return p;
}

// The sum of what the threads of a block have.
__device__ inline double block_sum(double mine)
{
    __shared__ double piece[THREADS];
    piece[threadIdx.x] = mine;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) piece[threadIdx.x] += piece[threadIdx.x + step];
        __syncthreads();
    }
    return piece[0];
}
