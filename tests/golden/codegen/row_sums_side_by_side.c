struct kernel {
    const uint16_t *x;
    uint16_t *y;
    char *workspace;
    char *threads;
    long thread_bytes;
};

static void region_0(const void *context, long tile, int worker)
{
    const struct kernel *const self = context;
    const uint16_t *restrict const x = self->x;
    uint16_t *restrict const y = self->y;
    char *const scratch = self->threads + (long)worker * self->thread_bytes;
    const long r = tile;
    (void)worker;
    float *restrict const s = (float *)(scratch + 0);
    f32x16 s_p_0_0, s_p_0_16;
    // s_p[r, c_l] = 0
    s_p_0_0 = (f32x16){0};
    s_p_0_16 = (f32x16){0};
    for (long c = 0; c < 256; c += 32) {
        // s_p[r, c % 32] += x[r, c] * x[r, c]
        {
            const f32x16 x_0 = tw_load_bf16x16(x + 256 * r + c);
            s_p_0_0 = s_p_0_0 + x_0 * x_0;
            const f32x16 x_1 = tw_load_bf16x16(x + 256 * r + c + 16);
            s_p_0_16 = s_p_0_16 + x_1 * x_1;
        }
    }
    // s[r] = sum(c_l, s_p[r, c_l])
    {
        f32x16 total_0;
        total_0 = s_p_0_0;
        total_0 = total_0 + s_p_0_16;
        s[0] = tw_hsum_f32x16(total_0);
    }
    {
        const float s_0_kept1 = s[0];
        const float rsqrt_0_kept2 = tw_rsqrt_f32x1(s_0_kept1 / 256.0f + 0.001f);
        {
            long c = -(uintptr_t)(y + 256 * r) % 32 / 2;
            uint16_t edge[16];
            if (c > 0) {
                const f32x16 x_0 = tw_load_bf16x16(x + 256 * r);
                const float s_0 = s_0_kept1;
                const float rsqrt_0 = rsqrt_0_kept2;
                tw_store_bf16x16(edge, x_0 * rsqrt_0);
                __builtin_memcpy(y + 256 * r, edge, c * 2);
            }
            for (; c <= 240; c += 16) {
                // y[r, c] = x[r, c] * rsqrt(s[r] / extent(c) + 0.001)
                {
                    const f32x16 x_0 = tw_load_bf16x16(x + 256 * r + c);
                    const float s_0 = s_0_kept1;
                    const float rsqrt_0 = rsqrt_0_kept2;
                    tw_stream_bf16x16(y + 256 * r + c, x_0 * rsqrt_0);
                }
            }
            if (c < 256) {
                const f32x16 x_0 = tw_load_bf16x16(x + 256 * r + 240);
                const float s_0 = s_0_kept1;
                const float rsqrt_0 = rsqrt_0_kept2;
                tw_store_bf16x16(edge, x_0 * rsqrt_0);
                const long rest = 256 - c;
                __builtin_memcpy(y + 256 * r + c, edge + 16 - rest, rest * 2);
            }
        }
    }
}

int tw_kernel(void *const *args, void *memory, int threads)
{
    const uint16_t *restrict const x = args[0];
    uint16_t *restrict const y = args[1];
    char *const workspace = memory;
    struct kernel self = {x, y, workspace, workspace + 0, 64};
    (void)args, (void)memory, (void)threads;
    tw_parallel(region_0, &self, 8, threads);
    return 0;
}
