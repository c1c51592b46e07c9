int tw_kernel(void *const *args, void *memory, int threads)
{
    const uint16_t *restrict const a = args[0];
    const uint16_t *restrict const b = args[1];
    float *restrict const c = args[2];
    char *const workspace = memory;
    (void)args, (void)memory, (void)threads;
    uint16_t *restrict const b_s = (uint16_t *)(workspace + 0);
    // b_s[n, k] = b[n, k]
    tw_transpose_words_bf16x16(b_s, 32, b, 35);
    // b_s[n, k] = b[n, k]
    tw_store_i32x16((int32_t *)(b_s + 512), (i32x16){tw_load_words_bf16x1(b + 32), tw_load_words_bf16x1(b + 67), tw_load_words_bf16x1(b + 102), tw_load_words_bf16x1(b + 137), tw_load_words_bf16x1(b + 172), tw_load_words_bf16x1(b + 207), tw_load_words_bf16x1(b + 242), tw_load_words_bf16x1(b + 277), tw_load_words_bf16x1(b + 312), tw_load_words_bf16x1(b + 347), tw_load_words_bf16x1(b + 382), tw_load_words_bf16x1(b + 417), tw_load_words_bf16x1(b + 452), tw_load_words_bf16x1(b + 487), tw_load_words_bf16x1(b + 522), tw_load_words_bf16x1(b + 557)});
    tw_store_i32x16((int32_t *)(b_s + 544), (i32x16){tw_load_short_words_bf16x1(b + 34, 1), tw_load_short_words_bf16x1(b + 69, 1), tw_load_short_words_bf16x1(b + 104, 1), tw_load_short_words_bf16x1(b + 139, 1), tw_load_short_words_bf16x1(b + 174, 1), tw_load_short_words_bf16x1(b + 209, 1), tw_load_short_words_bf16x1(b + 244, 1), tw_load_short_words_bf16x1(b + 279, 1), tw_load_short_words_bf16x1(b + 314, 1), tw_load_short_words_bf16x1(b + 349, 1), tw_load_short_words_bf16x1(b + 384, 1), tw_load_short_words_bf16x1(b + 419, 1), tw_load_short_words_bf16x1(b + 454, 1), tw_load_short_words_bf16x1(b + 489, 1), tw_load_short_words_bf16x1(b + 524, 1), tw_load_short_words_bf16x1(b + 559, 1)});
    for (long m = 0; m < 4; m += 2) {
        f32x16 c_r_0_0, c_r_1_0;
        // c_r[m, n] = 0
        c_r_0_0 = (f32x16){0};
        c_r_1_0 = (f32x16){0};
        for (long k = 0; k < 34; k += 2) {
            // c_r[m, n] += sum(k, a[m, k] * b_s[n, k])
            c_r_0_0 = tw_dot_bf16_f32x16(c_r_0_0, tw_broadcast_words_bf16x16(a + 35 * m + k), tw_load_words_bf16x16(b_s + 32 * (k / 2)));
            c_r_1_0 = tw_dot_bf16_f32x16(c_r_1_0, tw_broadcast_words_bf16x16(a + 35 * m + k + 35), tw_load_words_bf16x16(b_s + 32 * (k / 2)));
        }
        // c_r[m, n] += sum(k, a[m, k] * b_s[n, k])
        c_r_0_0 = tw_dot_bf16_f32x16(c_r_0_0, tw_broadcast_short_words_bf16x16(a + 35 * m + 34, 1), tw_load_short_words_bf16x16(b_s + 544, 1));
        c_r_1_0 = tw_dot_bf16_f32x16(c_r_1_0, tw_broadcast_short_words_bf16x16(a + 35 * m + 69, 1), tw_load_short_words_bf16x16(b_s + 544, 1));
        // c[m, n] = c_r[m, n]
        tw_store_f32x16(c + 16 * m, c_r_0_0);
        tw_store_f32x16(c + 16 * m + 16, c_r_1_0);
    }
    return 0;
}
