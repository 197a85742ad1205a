// What all kernels share. STORAGE, FIELDS and CHUNK are defined by the host: see kernels.py.

#if STORAGE == 1
typedef double stored;
typedef double real;
#elif STORAGE == 2
typedef unsigned short stored;  // bfloat16
typedef float real;
#else
typedef float stored;
typedef float real;
#endif

// One row of the table for each block of each layer: where its state lies and how large it is.
enum Field {
    ROWS, TRANSFORM, SPECTRUM, ESCAPED, COUNTS, WIDTH, UPDATE, SLOTS, MOST, FIRST_CHUNK, CHUNKS, LAYER,
    SUMS, SUMMED
};

__device__ inline long long field(const long long* table, int block, Field name)
{
    return table[(long long)block * FIELDS + name];
}

__device__ inline real load(const stored* at)
{
#if STORAGE == 2
    return __uint_as_float((unsigned int)*at << 16);
#else
    return *at;
#endif
}

__device__ inline void store(stored* at, real value)
{
#if STORAGE == 2
    unsigned int bits = __float_as_uint(value);
    *at = (stored)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);  // to nearest, ties to even
#else
    *at = value;
#endif
}

// A number as the rows have it.
__device__ inline real rounded(real value)
{
    stored kept;
    store(&kept, value);
    return load(&kept);
}

// Four numbers at an address that is a multiple of their size.
__device__ inline void load_four(const stored* at, real* into)
{
#if STORAGE == 1
    const double2 a = ((const double2*)at)[0], b = ((const double2*)at)[1];
    into[0] = a.x; into[1] = a.y; into[2] = b.x; into[3] = b.y;
#elif STORAGE == 2
    const uint2 a = *(const uint2*)at;
    into[0] = __uint_as_float(a.x << 16); into[1] = __uint_as_float(a.x & 0xffff0000u);
    into[2] = __uint_as_float(a.y << 16); into[3] = __uint_as_float(a.y & 0xffff0000u);
#else
    const float4 a = *(const float4*)at;
    into[0] = a.x; into[1] = a.y; into[2] = a.z; into[3] = a.w;
#endif
}

// Four numbers to compute with, moved at once.
struct __align__(16) Four { real x[4]; };

__device__ inline void store_four(stored* at, const real* from)
{
#if STORAGE == 2
    stored rounded[4];
    for (int i = 0; i < 4; ++i) store(rounded + i, from[i]);
    uint2 packed;
    packed.x = rounded[0] | (unsigned int)rounded[1] << 16;
    packed.y = rounded[2] | (unsigned int)rounded[3] << 16;
    *(uint2*)at = packed;
#else
    *(Four*)at = *(const Four*)from;
#endif
}

// Number e of a gradient, which has the type of the rows or, `wide`, the one that is computed in.
__device__ inline real gradient(long long address, long long e, int wide)
{
    return wide ? ((const real*)address)[e] : load((const stored*)address + e);
}
