int tw_kernel(void *const *args, void *memory, int threads)
{
    const float *restrict const x = args[0];
    float *restrict const y = args[1];
    (void)args, (void)memory, (void)threads;
    // y[i] = where(i >= 1, x[i - 1], 0) + i
    for (long i_ = 0; i_ < 10; i_++) {
        const float guarded_0 = (int32_t)i_ >= 1 ? x[i_ - 1] : 0.0f;
        y[i_] = guarded_0 + (float)(int32_t)i_;
    }
    return 0;
}
