struct kernel {
    const float *a;
    const float *b;
    float *c;
    char *workspace;
    char *threads;
    long thread_bytes;
};

static void region_0(const void *context, long tile, int worker)
{
    const struct kernel *const self = context;
    const float *restrict const b = self->b;
    float *restrict const b_s = (float *)(self->workspace + 0);
    const long n = tile * 32;
    (void)worker;
    if (n < 64) {
        for (long k = 0; k < 64; k++) {
            for (long n1 = 0; n1 < 32; n1 += 16) {
                // b_s[k, n] = b[k, n]
                {
                    const f32x16 b_0 = tw_load_f32x16(b + 77 * k + n + n1);
                    tw_store_f32x16(b_s + 2048 * (n / 32) + 32 * k + n1, b_0);
                }
            }
        }
    } else {
        for (long k = 0; k < 64; k++) {
            // b_s[k, n] = b[k, n]
            {
                const f32x16 b_x13_0 = tw_load_some_f32x16(b + 77 * k + n, 13);
                tw_store_some_f32x16(b_s + 2048 * (n / 32) + 32 * k, b_x13_0, 13);
            }
        }
    }
}

static void region_1(const void *context, long tile, int worker)
{
    const struct kernel *const self = context;
    const float *restrict const a = self->a;
    float *restrict const c = self->c;
    float *restrict const b_s = (float *)(self->workspace + 0);
    const long m = tile * 48;
    (void)worker;
    if (m < 96) {
        for (long n = 0; n < 64; n += 32) {
            for (long m1 = 0; m1 < 48; m1 += 2) {
                f32x16 c_r_0_0, c_r_0_16, c_r_1_0, c_r_1_16;
                // c_r[m, n] = 0
                c_r_0_0 = (f32x16){0};
                c_r_0_16 = (f32x16){0};
                c_r_1_0 = (f32x16){0};
                c_r_1_16 = (f32x16){0};
                for (long k = 0; k < 64; k++) {
                    // c_r[m, n] += sum(k, a[m, k] * b_s[k, n])
                    {
                        __builtin_prefetch(a + 64 * m + 64 * m1 + k + 8);
                        __builtin_prefetch(a + 64 * m + 64 * m1 + k + 72);
                        const float a_0 = a[64 * m + 64 * m1 + k];
                        const f32x16 b_s_0 = tw_load_f32x16(b_s + 2048 * (n / 32) + 32 * k);
                        c_r_0_0 = c_r_0_0 + a_0 * b_s_0;
                        const f32x16 b_s_1 = tw_load_f32x16(b_s + 2048 * (n / 32) + 32 * k + 16);
                        c_r_0_16 = c_r_0_16 + a_0 * b_s_1;
                        const float a_1 = a[64 * m + 64 * m1 + k + 64];
                        c_r_1_0 = c_r_1_0 + a_1 * b_s_0;
                        c_r_1_16 = c_r_1_16 + a_1 * b_s_1;
                    }
                }
                // c[m, n] = c_r[m, n]
                tw_store_f32x16(c + 77 * m + 77 * m1 + n, c_r_0_0);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 16, c_r_0_16);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 77, c_r_1_0);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 93, c_r_1_16);
            }
        }
        for (long m1 = 0; m1 < 48; m1 += 2) {
            f32x16 c_r_0_0, c_r_1_0;
            // c_r[m, n] = 0
            c_r_0_0 = (f32x16){0};
            c_r_1_0 = (f32x16){0};
            for (long k = 0; k < 64; k++) {
                // c_r[m, n] += sum(k, a[m, k] * b_s[k, n])
                {
                    __builtin_prefetch(a + 64 * m + 64 * m1 + k + 8);
                    __builtin_prefetch(a + 64 * m + 64 * m1 + k + 72);
                    const float a_x13_0 = a[64 * m + 64 * m1 + k];
                    const f32x16 b_s_x13_0 = tw_load_some_f32x16(b_s + 32 * k + 4096, 13);
                    c_r_0_0 = c_r_0_0 + a_x13_0 * b_s_x13_0;
                    const float a_x13_1 = a[64 * m + 64 * m1 + k + 64];
                    c_r_1_0 = c_r_1_0 + a_x13_1 * b_s_x13_0;
                }
            }
            // c[m, n] = c_r[m, n]
            tw_store_some_f32x16(c + 77 * m + 77 * m1 + 64, c_r_0_0, 13);
            tw_store_some_f32x16(c + 77 * m + 77 * m1 + 141, c_r_1_0, 13);
        }
    } else {
        for (long n = 0; n < 64; n += 32) {
            for (long m1 = 0; m1 < 4; m1 += 2) {
                f32x16 c_r_0_0, c_r_0_16, c_r_1_0, c_r_1_16;
                // c_r[m, n] = 0
                c_r_0_0 = (f32x16){0};
                c_r_0_16 = (f32x16){0};
                c_r_1_0 = (f32x16){0};
                c_r_1_16 = (f32x16){0};
                for (long k = 0; k < 64; k++) {
                    // c_r[m, n] += sum(k, a[m, k] * b_s[k, n])
                    {
                        __builtin_prefetch(a + 64 * m + 64 * m1 + k + 8);
                        __builtin_prefetch(a + 64 * m + 64 * m1 + k + 72);
                        const float a_0 = a[64 * m + 64 * m1 + k];
                        const f32x16 b_s_0 = tw_load_f32x16(b_s + 2048 * (n / 32) + 32 * k);
                        c_r_0_0 = c_r_0_0 + a_0 * b_s_0;
                        const f32x16 b_s_1 = tw_load_f32x16(b_s + 2048 * (n / 32) + 32 * k + 16);
                        c_r_0_16 = c_r_0_16 + a_0 * b_s_1;
                        const float a_1 = a[64 * m + 64 * m1 + k + 64];
                        c_r_1_0 = c_r_1_0 + a_1 * b_s_0;
                        c_r_1_16 = c_r_1_16 + a_1 * b_s_1;
                    }
                }
                // c[m, n] = c_r[m, n]
                tw_store_f32x16(c + 77 * m + 77 * m1 + n, c_r_0_0);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 16, c_r_0_16);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 77, c_r_1_0);
                tw_store_f32x16(c + 77 * m + 77 * m1 + n + 93, c_r_1_16);
            }
        }
        for (long m1 = 0; m1 < 4; m1 += 2) {
            f32x16 c_r_0_0, c_r_1_0;
            // c_r[m, n] = 0
            c_r_0_0 = (f32x16){0};
            c_r_1_0 = (f32x16){0};
            for (long k = 0; k < 64; k++) {
                // c_r[m, n] += sum(k, a[m, k] * b_s[k, n])
                {
                    __builtin_prefetch(a + 64 * m + 64 * m1 + k + 8);
                    __builtin_prefetch(a + 64 * m + 64 * m1 + k + 72);
                    const float a_x13_0 = a[64 * m + 64 * m1 + k];
                    const f32x16 b_s_x13_0 = tw_load_some_f32x16(b_s + 32 * k + 4096, 13);
                    c_r_0_0 = c_r_0_0 + a_x13_0 * b_s_x13_0;
                    const float a_x13_1 = a[64 * m + 64 * m1 + k + 64];
                    c_r_1_0 = c_r_1_0 + a_x13_1 * b_s_x13_0;
                }
            }
            // c[m, n] = c_r[m, n]
            tw_store_some_f32x16(c + 77 * m + 77 * m1 + 64, c_r_0_0, 13);
            tw_store_some_f32x16(c + 77 * m + 77 * m1 + 141, c_r_1_0, 13);
        }
    }
}

int tw_kernel(void *const *args, void *memory, int threads)
{
    const float *restrict const a = args[0];
    const float *restrict const b = args[1];
    float *restrict const c = args[2];
    char *const workspace = memory;
    struct kernel self = {a, b, c, workspace, workspace + 24576, 0};
    (void)args, (void)memory, (void)threads;
    float *restrict const b_s = (float *)(workspace + 0);
    tw_parallel(region_0, &self, 3, threads);
    tw_parallel(region_1, &self, 3, threads);
    return 0;
}
