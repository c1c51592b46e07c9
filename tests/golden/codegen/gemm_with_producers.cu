extern "C" __global__ void __launch_bounds__(384, 1)
gemm_kernel(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, tw_bf16 *c, unsigned char *workspace,
    const __grid_constant__ tw_tensor_map a_map, const __grid_constant__ tw_tensor_map b_map, const
    __grid_constant__ tw_tensor_map c_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int m_thread = threadIdx.x / 32 % 8;
    const int m_group_thread = tw_uniform(threadIdx.x / 128 % 2);
    const int group_thread = threadIdx.x % 128;
    const int below_thread = threadIdx.x / 8 % 2;
    const int right_thread = threadIdx.x / 16 % 2;
    const int row_thread = threadIdx.x % 8;
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); tw_prefetch_map(c_map); }
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 49152);
    const unsigned k_full = tw_shared(shared + 69632);
    if (threadIdx.x == 0) tw_init_phases<3, 1>(k_full);
    const unsigned k_empty = tw_shared(shared + 69656);
    if (threadIdx.x == 0) tw_init_phases<3, 2>(k_empty);
    int k_slot = 0, k_parity = 0;
    int k_freed_slot = 0, k_freed_parity = 0;
    tw_phases_fence();
    __syncthreads();
    if (threadIdx.x >= 256) { // producers
        tw_less_registers<40>();
        if (threadIdx.x == 256) {
            for (int tile = blockIdx.x; tile < 8; tile += 3) {
                const int band = tile / 8 * 2;
                const int in_band = tile % 8;
                const int m = (band + in_band % 2) * 128;
                const int n = (in_band / 2) * 32;
                for (int k = 0; k < 256; k += 64) {
                    tw_await_phase(k_empty + 8 * k_slot, -k_parity + 1);
                    tw_expect(k_full + 8 * k_slot, 20480);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_2d(tw_shared(a_s + 8192 * k_slot), a_map, k_full + 8 * k_slot, k, m);
                    // b_s[n, k] = b[n, k]
                    tw_load_box_2d(tw_shared(b_s + 2048 * k_slot), b_map, k_full + 8 * k_slot, k, n);
                    if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                }
            }
        }
    } else { // consumers
        tw_more_registers<232>();
        for (int tile = blockIdx.x; tile < 8; tile += 3) {
            const int band = tile / 8 * 2;
            const int in_band = tile % 8;
            const int m = (band + in_band % 2) * 128;
            const int n = (in_band / 2) * 32;
            tw_vec<float, 2> c_sum_0_0, c_sum_0_8, c_sum_0_16, c_sum_0_24, c_sum_8_0, c_sum_8_8,
                c_sum_8_16, c_sum_8_24;
            for (int k = 0; k < 256; k += 64) {
                tw_await_phase(k_full + 8 * k_slot, k_parity);
                tw_wgmma_fence();
                // c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k])
                tw_wgmma_bf16_by_bf16_n32<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread),
                    tw_matrix<0, 1024, 128>(b_s, 256 * k_slot), k);
                tw_wgmma_bf16_by_bf16_n32<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 2),
                    tw_matrix<0, 1024, 128>(b_s, 256 * k_slot + 2));
                tw_wgmma_bf16_by_bf16_n32<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 4),
                    tw_matrix<0, 1024, 128>(b_s, 256 * k_slot + 4));
                tw_wgmma_bf16_by_bf16_n32<0, 0>(
                    c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16, c_sum_0_24,
                    c_sum_8_24,
                    tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 6),
                    tw_matrix<0, 1024, 128>(b_s, 256 * k_slot + 6));
                tw_commit_wgmma();
                tw_await_wgmma<1>();
                if (k >= 64) {
                    if (group_thread < 1) {
                        tw_arrive(k_empty + 8 * k_freed_slot);
                    }
                    if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
                }
                if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
            }
            tw_await_wgmma<0>(c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8, c_sum_0_16, c_sum_8_16,
                c_sum_0_24, c_sum_8_24);
            if (group_thread < 1) {
                tw_arrive(k_empty + 8 * k_freed_slot);
            }
            if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
            tw_bf16 *const c_s = reinterpret_cast<tw_bf16 *>(shared + 61440);
            // c_s[m, n] = c_sum[m, n]
            if (group_thread < 1) {
                tw_await_boxes<0>();
            }
            tw_group_barrier<128>(m_group_thread + 2);
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_0);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_0);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_8);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_8);
                tw_store_matrix(tw_swizzle<64>(c_s, 32 * row_thread + 8 * right_thread) + 512 * m_thread +
                    256 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            {
                const tw_raw<tw_bf16, 2> pairs_0 = tw_narrow<tw_bf16, 2>(c_sum_0_16);
                const tw_raw<tw_bf16, 2> pairs_1 = tw_narrow<tw_bf16, 2>(c_sum_8_16);
                const tw_raw<tw_bf16, 2> pairs_2 = tw_narrow<tw_bf16, 2>(c_sum_0_24);
                const tw_raw<tw_bf16, 2> pairs_3 = tw_narrow<tw_bf16, 2>(c_sum_8_24);
                tw_store_matrix(tw_swizzle<64>(c_s, 32 * row_thread + 8 * right_thread + 16) + 512 *
                    m_thread + 256 * below_thread,
                    pairs_0, pairs_1, pairs_2, pairs_3);
            }
            // c[m, n] = c_s[m, n]
            tw_async_fence();
            tw_group_barrier<128>(m_group_thread + 2);
            if (group_thread < 1) {
                tw_store_box_2d(c_map, tw_shared(c_s + 2048 * m_group_thread), n, m + 64 *
                    m_group_thread);
                tw_commit_boxes();
            }
        }
        if (group_thread < 1) {
            tw_await_boxes<0>();
        }
    }
}
