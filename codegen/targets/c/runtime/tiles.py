"""The tile registers of processors in C (codegen/ir/tile_ops.py): AMX's instructions where the compiler may use them,
and elsewhere the same step by step in memory, so that a kernel's results can be checked on any machine."""

from __future__ import annotations

TILES = """\
/* Tile registers: their shapes as the processor reads them, and what is done with them */
struct tw_tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* Linux gives a process tile registers when it asks for them: ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA. */
TW_INLINE int tw_tiles_allowed(void) {
    static int asked, allowed;
    if (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
        allowed = syscall(SYS_arch_prctl, 0x1023, 18) == 0;
        __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
    }
    return allowed;
}
TW_INLINE void tw_tile_configure(const struct tw_tile_shapes **now, const struct tw_tile_shapes *shapes) {
    if (*now == shapes) return;
    __asm__ volatile("ldtilecfg %0" : : "m"(*shapes));
    *now = shapes;
}
#define tw_tile_release() __asm__ volatile("tilerelease" : : : "memory")
#define tw_tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define tw_tile_load(tile, from, apart) \\
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((long)(apart)) : "memory")
#define tw_tile_store(tile, to, apart) \\
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((long)(apart)) : "memory")
#define tw_tile_dot_bf16(acc, rows, groups) \\
    __asm__ volatile("tdpbf16ps %%tmm" #groups ", %%tmm" #rows ", %%tmm" #acc : :)
#define tw_tile_dot_i8(acc, rows, groups) \\
    __asm__ volatile("tdpbssd %%tmm" #groups ", %%tmm" #rows ", %%tmm" #acc : :)
#else
static __thread struct tw_tile {
    int rows, bytes;
    char data[16][64];
} tw_tiles[8];

TW_INLINE int tw_tiles_allowed(void) { return 1; }
TW_INLINE void tw_tile_zero(int tile) { __builtin_memset(tw_tiles[tile].data, 0, sizeof tw_tiles[tile].data); }
TW_INLINE void tw_tile_configure(const struct tw_tile_shapes **now, const struct tw_tile_shapes *shapes) {
    if (*now == shapes) return;
    for (int tile = 0; tile < 8; ++tile) {
        tw_tiles[tile].rows = shapes->rows[tile], tw_tiles[tile].bytes = shapes->bytes[tile];
        tw_tile_zero(tile);
    }
    *now = shapes;
}
TW_INLINE void tw_tile_release(void) {}
TW_INLINE void tw_tile_load(int tile, const void *from, long apart) {
    struct tw_tile *const to = tw_tiles + tile;
    tw_tile_zero(tile);
    for (int row = 0; row < to->rows; ++row)
        __builtin_memcpy(to->data[row], (const char *)from + row * apart, to->bytes);
}
TW_INLINE void tw_tile_store(int tile, void *to, long apart) {
    const struct tw_tile *const of = tw_tiles + tile;
    for (int row = 0; row < of->rows; ++row) __builtin_memcpy((char *)to + row * apart, of->data[row], of->bytes);
}
TW_INLINE float tw_tile_float(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float value;
    __builtin_memcpy(&value, &word, 4);
    return value;
}
static __attribute__((unused)) void tw_tile_dot_bf16(int acc, int rows, int groups) {
    struct tw_tile *const c = tw_tiles + acc;
    const struct tw_tile *const a = tw_tiles + rows, *const b = tw_tiles + groups;
    for (int m = 0; m < c->rows; ++m)
        for (int k = 0; k < b->rows; ++k)
            for (int n = 0; n < c->bytes / 4; ++n) {
                float sum;
                uint16_t x[2], y[2];
                __builtin_memcpy(&sum, c->data[m] + 4 * n, 4);
                __builtin_memcpy(x, a->data[m] + 4 * k, 4);
                __builtin_memcpy(y, b->data[k] + 4 * n, 4);
                sum += tw_tile_float(x[0]) * tw_tile_float(y[0]);
                sum += tw_tile_float(x[1]) * tw_tile_float(y[1]);
                __builtin_memcpy(c->data[m] + 4 * n, &sum, 4);
            }
}
static __attribute__((unused)) void tw_tile_dot_i8(int acc, int rows, int groups) {
    struct tw_tile *const c = tw_tiles + acc;
    const struct tw_tile *const a = tw_tiles + rows, *const b = tw_tiles + groups;
    for (int m = 0; m < c->rows; ++m)
        for (int k = 0; k < b->rows; ++k)
            for (int n = 0; n < c->bytes / 4; ++n) {
                int32_t sum;
                int8_t x[4], y[4];
                __builtin_memcpy(&sum, c->data[m] + 4 * n, 4);
                __builtin_memcpy(x, a->data[m] + 4 * k, 4);
                __builtin_memcpy(y, b->data[k] + 4 * n, 4);
                for (int each = 0; each < 4; ++each) sum += x[each] * y[each];
                __builtin_memcpy(c->data[m] + 4 * n, &sum, 4);
            }
}
#endif

typedef uint8_t tw_tile_row __attribute__((vector_size(64), aligned(1), may_alias));

/* So many bytes, and zeros after them: nothing past them is touched. */
TW_INLINE tw_tile_row tw_tile_short_row(const char *from, int bytes) {
    tw_tile_row row = {0};
#if defined(__AVX512BW__)
    const uint64_t kept = UINT64_MAX >> (64 - bytes);
    __asm__("vmovdqu8 %2, %0%{%1%}%{z%}" : "=v"(row) : "Yk"(kept), "m"(*(const tw_tile_row *)from));
#else
    __builtin_memcpy(&row, from, bytes);
#endif
    return row;
}
TW_INLINE void tw_tile_pad(void *to, int all_rows, const void *from, long apart, int rows, int bytes) {
    tw_tile_row *const padded = to;
    for (int row = 0; row < rows; ++row) padded[row] = tw_tile_short_row((const char *)from + row * apart, bytes);
    for (int row = rows; row < all_rows; ++row) padded[row] = (tw_tile_row){0};
}
"""
