// A thread block works on CHUNK columns of one block of one layer.

struct Chunk {
    int block, count;       // whose columns, and how many
    long long begin, width;
};

__device__ inline Chunk chunk_of(const long long* table, const int* owners)
{
    Chunk c;
    c.block = owners[blockIdx.x];
    c.width = field(table, c.block, WIDTH);
    c.begin = (blockIdx.x - field(table, c.block, FIRST_CHUNK)) * CHUNK;
    const long long left = c.width - c.begin;
    c.count = (int)(left < CHUNK ? left : CHUNK);
    return c;
}
