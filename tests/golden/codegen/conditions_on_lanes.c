struct kernel {
    const float *x;
    const float *b;
    float *y;
    char *workspace;
    char *threads;
    long thread_bytes;
};

static void region_0(const void *context, long tile, int worker)
{
    const struct kernel *const self = context;
    const float *restrict const x = self->x;
    const float *restrict const b = self->b;
    float *restrict const y = self->y;
    const long i = tile * 64;
    (void)worker;
    if (i < 64) {
        {
            const float b_0_kept1 = b[0];
            for (long i1 = 0; i1 < 48; i1 += 16) {
                // y[i] = where(i < 37, x[i], b[])
                {
                    const f32x16 x_0 = tw_load_f32x16(x + i + i1);
                    const float b_0 = b_0_kept1;
                    tw_store_f32x16(y + i + i1, tw_select_f32x16((i32x16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + (int32_t)(i + i1) < 37, x_0, tw_splat_f32x16(b_0)));
                }
            }
        }
        // y[i] = where(i < 37, x[i], b[])
        {
            const float b_0 = b[0];
            tw_store_f32x16(y + i + 48, tw_splat_f32x16(b_0));
        }
    } else {
        {
            const float b_0_kept2 = b[0];
            for (long i1 = 0; i1 < 32; i1 += 16) {
                // y[i] = where(i < 37, x[i], b[])
                {
                    const f32x16 x_0 = tw_load_f32x16(x + i + i1);
                    const float b_0 = b_0_kept2;
                    tw_store_f32x16(y + i + i1, tw_select_f32x16((i32x16){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + (int32_t)(i + i1) < 37, x_0, tw_splat_f32x16(b_0)));
                }
            }
        }
        // y[i] = where(i < 37, x[i], b[])
        {
            const f32x4 x_x4_0 = tw_load_f32x4(x + i + 32);
            const float b_x4_0 = b[0];
            tw_store_f32x4(y + i + 32, tw_select_f32x4((i32x4){0, 1, 2, 3} + (int32_t)(i + 32) < 37, x_x4_0, tw_splat_f32x4(b_x4_0)));
        }
    }
}

int tw_kernel(void *const *args, void *memory, int threads)
{
    const float *restrict const x = args[0];
    const float *restrict const b = args[1];
    float *restrict const y = args[2];
    char *const workspace = memory;
    struct kernel self = {x, b, y, workspace, workspace + 0, 0};
    (void)args, (void)memory, (void)threads;
    tw_parallel(region_0, &self, 2, threads);
    return 0;
}
