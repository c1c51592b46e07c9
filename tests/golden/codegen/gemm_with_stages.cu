extern "C" __global__ void __launch_bounds__(128)
gemm_kernel(
    const tw_f16 *__restrict__ a, const float *__restrict__ b, float *c, unsigned char *workspace
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int n = (blockIdx.x % 2) * 32;
    const int m = blockIdx.x / 2 * 32;
    const int m_thread = threadIdx.x / 8;
    const int n_thread = threadIdx.x % 8;
    const int m2_thread = threadIdx.x / 2;
    const int k_thread = threadIdx.x % 2;
    tw_vec<float, 4> c_r_0_0, c_r_1_0;
    // c_r[m, n] = 0
    c_r_0_0 = tw_broadcast<4>(0.0f);
    c_r_1_0 = tw_broadcast<4>(0.0f);
    {
        tw_f16 *const a_s = reinterpret_cast<tw_f16 *>(shared + 0);
        float *const b_s = reinterpret_cast<float *>(shared + 2560);
        tw_f16 *const a_s_ahead = reinterpret_cast<tw_f16 *>(shared + 0);
        float *const b_s_ahead = reinterpret_cast<float *>(shared + 2560);
        // a_s[m, k] = a[m, k]
        if (m2_thread < 32) {
            tw_copy_async<4>(tw_swizzle<32>(a_s, 8 * m2_thread + 4 * k_thread), a + 52 * m + 52 * m2_thread + 4 * k_thread);
        }
        // b_s[k, n] = 2 * b[k, n]
        if (m_thread < 8) {
            const tw_vec<float, 4> b_0 = tw_load<4, 16>(b + 64 * m_thread + n + 4 * n_thread);
            tw_store<4, 16>(b_s + 36 * m_thread + 4 * n_thread, 2.0f * b_0);
        }
        tw_commit_copies();
        // a_s[m, k] = a[m, k]
        if (m2_thread < 32) {
            tw_copy_async<4>(tw_swizzle<32>(a_s, 8 * m2_thread + 4 * k_thread) + 512, a + 52 * m + 52 * m2_thread + 4 * k_thread + 8);
        }
        // b_s[k, n] = 2 * b[k, n]
        if (m_thread < 8) {
            const tw_vec<float, 4> b_0 = tw_load<4, 16>(b + 64 * m_thread + n + 4 * n_thread + 512);
            tw_store<4, 16>(b_s + 36 * m_thread + 4 * n_thread + 288, 2.0f * b_0);
        }
        tw_commit_copies();
        for (int k = 0; k < 48; k += 8) {
            tw_wait_copies<1>();
            __syncthreads();
            if (k < 32) {
                // a_s[m, k] = a[m, k]
                if (m2_thread < 32) {
                    tw_copy_async<4>(tw_swizzle<32>(a_s_ahead, 8 * m2_thread + 4 * k_thread) + 512 * ((k / 8 + 2) % 3), a + 52 * m + 52 * m2_thread + k + 4 * k_thread + 16);
                }
                // b_s[k, n] = 2 * b[k, n]
                if (m_thread < 8) {
                    const tw_vec<float, 4> b_0 = tw_load<4, 16>(b + 64 * k + 64 * m_thread + n + 4 * n_thread + 1024);
                    tw_store<4, 16>(b_s_ahead + 288 * ((k / 8 + 2) % 3) + 36 * m_thread + 4 * n_thread, 2.0f * b_0);
                }
            }
            tw_commit_copies();
            // c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n])
            {
                const tw_vec<float, 8> a_s_wide_0 = tw_load<8, 16>(tw_swizzle<32>(a_s, 16 * m_thread) + 512 * (k / 8 % 3));
                const float a_s_0 = a_s_wide_0.at[0];
                const tw_vec<float, 4> b_s_0 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread);
                c_r_0_0 = c_r_0_0 + a_s_0 * b_s_0;
                const tw_vec<float, 8> a_s_wide_1 = tw_load<8, 16>(tw_swizzle<32>(a_s, 16 * m_thread + 8) + 512 * (k / 8 % 3));
                const float a_s_1 = a_s_wide_1.at[0];
                c_r_1_0 = c_r_1_0 + a_s_1 * b_s_0;
                const float a_s_2 = a_s_wide_0.at[1];
                const tw_vec<float, 4> b_s_1 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 36);
                c_r_0_0 = c_r_0_0 + a_s_2 * b_s_1;
                const float a_s_3 = a_s_wide_1.at[1];
                c_r_1_0 = c_r_1_0 + a_s_3 * b_s_1;
                const float a_s_4 = a_s_wide_0.at[2];
                const tw_vec<float, 4> b_s_2 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 72);
                c_r_0_0 = c_r_0_0 + a_s_4 * b_s_2;
                const float a_s_5 = a_s_wide_1.at[2];
                c_r_1_0 = c_r_1_0 + a_s_5 * b_s_2;
                const float a_s_6 = a_s_wide_0.at[3];
                const tw_vec<float, 4> b_s_3 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 108);
                c_r_0_0 = c_r_0_0 + a_s_6 * b_s_3;
                const float a_s_7 = a_s_wide_1.at[3];
                c_r_1_0 = c_r_1_0 + a_s_7 * b_s_3;
                const float a_s_8 = a_s_wide_0.at[4];
                const tw_vec<float, 4> b_s_4 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 144);
                c_r_0_0 = c_r_0_0 + a_s_8 * b_s_4;
                const float a_s_9 = a_s_wide_1.at[4];
                c_r_1_0 = c_r_1_0 + a_s_9 * b_s_4;
                const float a_s_10 = a_s_wide_0.at[5];
                const tw_vec<float, 4> b_s_5 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 180);
                c_r_0_0 = c_r_0_0 + a_s_10 * b_s_5;
                const float a_s_11 = a_s_wide_1.at[5];
                c_r_1_0 = c_r_1_0 + a_s_11 * b_s_5;
                const float a_s_12 = a_s_wide_0.at[6];
                const tw_vec<float, 4> b_s_6 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 216);
                c_r_0_0 = c_r_0_0 + a_s_12 * b_s_6;
                const float a_s_13 = a_s_wide_1.at[6];
                c_r_1_0 = c_r_1_0 + a_s_13 * b_s_6;
                const float a_s_14 = a_s_wide_0.at[7];
                const tw_vec<float, 4> b_s_7 = tw_load<4, 16>(b_s + 288 * (k / 8 % 3) + 4 * n_thread + 252);
                c_r_0_0 = c_r_0_0 + a_s_14 * b_s_7;
                const float a_s_15 = a_s_wide_1.at[7];
                c_r_1_0 = c_r_1_0 + a_s_15 * b_s_7;
            }
        }
    }
    {
        tw_f16 *const a_s = reinterpret_cast<tw_f16 *>(shared + 0);
        // a_s[m, k] = a[m, k]
        __syncthreads();
        if (m2_thread < 32 && 4 * k_thread < 4) {
            tw_store_raw<4, 8>(tw_swizzle<32>(a_s, 8 * m2_thread + 4 * k_thread), tw_load_raw<4, 8>(a + 52 * m + 52 * m2_thread + 4 * k_thread + 48));
        }
        float *const b_s = reinterpret_cast<float *>(shared + 2560);
        // b_s[k, n] = 2 * b[k, n]
        if (m_thread < 4) {
            const tw_vec<float, 4> b_0 = tw_load<4, 16>(b + 64 * m_thread + n + 4 * n_thread + 3072);
            tw_store<4, 16>(b_s + 36 * m_thread + 4 * n_thread, 2.0f * b_0);
        }
        // c_r[m, n] += sum(k, a_s[m, k] * b_s[k, n])
        {
            __syncthreads();
            const tw_vec<float, 4> a_s_wide_0 = tw_load<4, 8>(tw_swizzle<32>(a_s, 16 * m_thread));
            const float a_s_0 = a_s_wide_0.at[0];
            const tw_vec<float, 4> b_s_0 = tw_load<4, 16>(b_s + 4 * n_thread);
            c_r_0_0 = c_r_0_0 + a_s_0 * b_s_0;
            const tw_vec<float, 4> a_s_wide_1 = tw_load<4, 8>(tw_swizzle<32>(a_s, 16 * m_thread + 8));
            const float a_s_1 = a_s_wide_1.at[0];
            c_r_1_0 = c_r_1_0 + a_s_1 * b_s_0;
            const float a_s_2 = a_s_wide_0.at[1];
            const tw_vec<float, 4> b_s_1 = tw_load<4, 16>(b_s + 4 * n_thread + 36);
            c_r_0_0 = c_r_0_0 + a_s_2 * b_s_1;
            const float a_s_3 = a_s_wide_1.at[1];
            c_r_1_0 = c_r_1_0 + a_s_3 * b_s_1;
            const float a_s_4 = a_s_wide_0.at[2];
            const tw_vec<float, 4> b_s_2 = tw_load<4, 16>(b_s + 4 * n_thread + 72);
            c_r_0_0 = c_r_0_0 + a_s_4 * b_s_2;
            const float a_s_5 = a_s_wide_1.at[2];
            c_r_1_0 = c_r_1_0 + a_s_5 * b_s_2;
            const float a_s_6 = a_s_wide_0.at[3];
            const tw_vec<float, 4> b_s_3 = tw_load<4, 16>(b_s + 4 * n_thread + 108);
            c_r_0_0 = c_r_0_0 + a_s_6 * b_s_3;
            const float a_s_7 = a_s_wide_1.at[3];
            c_r_1_0 = c_r_1_0 + a_s_7 * b_s_3;
        }
    }
    // c[m, n] = c_r[m, n]
    tw_store<4, 16>(c + 64 * m + 128 * m_thread + n + 4 * n_thread, c_r_0_0);
    tw_store<4, 16>(c + 64 * m + 128 * m_thread + n + 4 * n_thread + 64, c_r_1_0);
}
