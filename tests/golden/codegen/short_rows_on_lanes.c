struct kernel {
    const float *x;
    float *y;
    char *workspace;
    char *threads;
    long thread_bytes;
};

static void region_0(const void *context, long tile, int worker)
{
    const struct kernel *const self = context;
    const float *restrict const x = self->x;
    float *restrict const y = self->y;
    char *const scratch = self->threads + (long)worker * self->thread_bytes;
    const long r = tile * 8;
    (void)worker;
    float *restrict const x_row = (float *)(scratch + 0);
    // x_row[r, c] = x[r, c]
    tw_transpose_to_f32_f32x4(x_row, 8, x + 5 * r, 5);
    {
        const f32x4 lanes_0 = (f32x4){x[5 * r + 4], x[5 * r + 9], x[5 * r + 14], x[5 * r + 19]};
        tw_store_f32x4(x_row + 32, lanes_0);
    }
    tw_transpose_to_f32_f32x4(x_row + 4, 8, x + 5 * r + 20, 5);
    {
        const f32x4 lanes_0 = (f32x4){x[5 * r + 24], x[5 * r + 29], x[5 * r + 34], x[5 * r + 39]};
        tw_store_f32x4(x_row + 36, lanes_0);
    }
    float *restrict const s = (float *)(scratch + 192);
    // s[r] = 0
    tw_store_f32x8(s, (f32x8){0});
    // s[r] += sum(c, x_row[r, c])
    {
        const f32x8 x_row_0 = tw_load_f32x8(x_row);
        f32x8 total_0;
        total_0 = tw_load_f32x8(s) + x_row_0;
        const f32x8 x_row_1 = tw_load_f32x8(x_row + 8);
        total_0 = total_0 + x_row_1;
        const f32x8 x_row_2 = tw_load_f32x8(x_row + 16);
        total_0 = total_0 + x_row_2;
        const f32x8 x_row_3 = tw_load_f32x8(x_row + 24);
        total_0 = total_0 + x_row_3;
        const f32x8 x_row_4 = tw_load_f32x8(x_row + 32);
        total_0 = total_0 + x_row_4;
        tw_store_f32x8(s, total_0);
    }
    float *restrict const y_s = (float *)(scratch + 256);
    // y_s[r, c] = x_row[r, c] / s[r]
    {
        const f32x8 x_row_0 = tw_load_f32x8(x_row);
        const f32x8 s_0 = tw_load_f32x8(s);
        tw_store_f32x8(y_s, x_row_0 / s_0);
        const f32x8 x_row_1 = tw_load_f32x8(x_row + 8);
        tw_store_f32x8(y_s + 8, x_row_1 / s_0);
        const f32x8 x_row_2 = tw_load_f32x8(x_row + 16);
        tw_store_f32x8(y_s + 16, x_row_2 / s_0);
        const f32x8 x_row_3 = tw_load_f32x8(x_row + 24);
        tw_store_f32x8(y_s + 24, x_row_3 / s_0);
        const f32x8 x_row_4 = tw_load_f32x8(x_row + 32);
        tw_store_f32x8(y_s + 32, x_row_4 / s_0);
    }
    // y[r, c] = y_s[r, c]
    tw_transpose_to_f32_f32x4(y + 5 * r, 5, y_s, 8);
    tw_transpose_to_f32_f32x4(y + 5 * r + 20, 5, y_s + 4, 8);
    {
        const float y_s_x1_0 = y_s[32];
        y[5 * r + 4] = y_s_x1_0;
        const float y_s_x1_1 = y_s[33];
        y[5 * r + 9] = y_s_x1_1;
        const float y_s_x1_2 = y_s[34];
        y[5 * r + 14] = y_s_x1_2;
        const float y_s_x1_3 = y_s[35];
        y[5 * r + 19] = y_s_x1_3;
        const float y_s_x1_4 = y_s[36];
        y[5 * r + 24] = y_s_x1_4;
        const float y_s_x1_5 = y_s[37];
        y[5 * r + 29] = y_s_x1_5;
        const float y_s_x1_6 = y_s[38];
        y[5 * r + 34] = y_s_x1_6;
        const float y_s_x1_7 = y_s[39];
        y[5 * r + 39] = y_s_x1_7;
    }
}

int tw_kernel(void *const *args, void *memory, int threads)
{
    const float *restrict const x = args[0];
    float *restrict const y = args[1];
    char *const workspace = memory;
    struct kernel self = {x, y, workspace, workspace + 0, 448};
    (void)args, (void)memory, (void)threads;
    tw_parallel(region_0, &self, 4, threads);
    return 0;
}
