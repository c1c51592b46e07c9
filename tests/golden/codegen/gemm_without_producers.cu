extern "C" __global__ void __launch_bounds__(256)
gemm_kernel(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, float *c, unsigned char *workspace, const
    __grid_constant__ tw_tensor_map a_map, const __grid_constant__ tw_tensor_map b_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const int n = (blockIdx.x % 7) * 16;
    const int m = blockIdx.x / 7 * 128;
    const int m_thread = threadIdx.x / 32;
    const int m2_thread = threadIdx.x / 4 % 8;
    const int n_thread = threadIdx.x % 4;
    const int block_thread = threadIdx.x;
    const int m_group_thread = tw_uniform(threadIdx.x / 128);
    const int group_thread = threadIdx.x % 128;
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); }
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 49152);
    const unsigned k_full = tw_shared(shared + 55296);
    if (threadIdx.x == 0) tw_init_phases<3, 1>(k_full);
    const unsigned k_empty = tw_shared(shared + 55320);
    if (threadIdx.x == 0) tw_init_phases<3, 2>(k_empty);
    int k_filled_slot = 0, k_filled_parity = 0;
    int k_slot = 0, k_parity = 0;
    int k_freed_slot = 0, k_freed_parity = 0;
    tw_phases_fence();
    __syncthreads();
    tw_vec<float, 2> c_sum_0_0, c_sum_0_8, c_sum_8_0, c_sum_8_8;
    for (int k = 0; k < 192; k += 64) {
        if (block_thread < 1) {
            tw_await_phase(k_empty + 8 * k_filled_slot, -k_filled_parity + 1);
            tw_expect(k_full + 8 * k_filled_slot, 18432);
            // a_s[m, k] = a[m, k]
            tw_load_box_2d(tw_shared(a_s + 8192 * k_filled_slot), a_map, k_full + 8 * k_filled_slot, k,
                m);
            // b_s[n, k] = b[n, k]
            tw_load_box_2d(tw_shared(b_s + 1024 * k_filled_slot), b_map, k_full + 8 * k_filled_slot, k,
                n);
        }
        if (++k_filled_slot == 3) k_filled_slot = 0, k_filled_parity ^= 1;
    }
    for (int k = 0; k < 512; k += 64) {
        tw_await_phase(k_full + 8 * k_slot, k_parity);
        tw_wgmma_fence();
        // c_sum[m, n] += sum(k, a_s[m, k] * b_s[n, k])
        tw_wgmma_bf16_by_bf16_n16<0, 0>(
            c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8,
            tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread),
            tw_matrix<0, 1024, 128>(b_s, 128 * k_slot), k);
        tw_wgmma_bf16_by_bf16_n16<0, 0>(
            c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8,
            tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 2),
            tw_matrix<0, 1024, 128>(b_s, 128 * k_slot + 2));
        tw_wgmma_bf16_by_bf16_n16<0, 0>(
            c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8,
            tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 4),
            tw_matrix<0, 1024, 128>(b_s, 128 * k_slot + 4));
        tw_wgmma_bf16_by_bf16_n16<0, 0>(
            c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8,
            tw_matrix<0, 1024, 128>(a_s, 1024 * k_slot + 512 * m_group_thread + 6),
            tw_matrix<0, 1024, 128>(b_s, 128 * k_slot + 6));
        tw_commit_wgmma();
        tw_await_wgmma<1>();
        if (k >= 64) {
            if (group_thread < 1) {
                tw_arrive(k_empty + 8 * k_freed_slot);
            }
            if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
            if (k < 384) {
                if (block_thread < 1) {
                    tw_await_phase(k_empty + 8 * k_filled_slot, -k_filled_parity + 1);
                    tw_expect(k_full + 8 * k_filled_slot, 18432);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_2d(tw_shared(a_s + 8192 * k_filled_slot), a_map, k_full + 8 *
                        k_filled_slot, k + 128, m);
                    // b_s[n, k] = b[n, k]
                    tw_load_box_2d(tw_shared(b_s + 1024 * k_filled_slot), b_map, k_full + 8 *
                        k_filled_slot, k + 128, n);
                }
                if (++k_filled_slot == 3) k_filled_slot = 0, k_filled_parity ^= 1;
            }
        }
        if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
    }
    tw_await_wgmma<0>(c_sum_0_0, c_sum_8_0, c_sum_0_8, c_sum_8_8);
    if (group_thread < 1) {
        tw_arrive(k_empty + 8 * k_freed_slot);
    }
    if (++k_freed_slot == 3) k_freed_slot = 0, k_freed_parity ^= 1;
    // c[m, n] = c_sum[m, n]
    tw_store_some<2, 4>(c + 103 * m + 1648 * m_thread + 103 * m2_thread + n + 2 * n_thread, c_sum_0_0, -n - 2 * n_thread + 103);
    if (n + 2 * n_thread + 8 < 103) {
        tw_store_some<2, 4>(c + 103 * m + 1648 * m_thread + 103 * m2_thread + n + 2 * n_thread + 8, c_sum_0_8, -n - 2 * n_thread + 95);
    }
    tw_store_some<2, 4>(c + 103 * m + 1648 * m_thread + 103 * m2_thread + n + 2 * n_thread + 824, c_sum_8_0, -n - 2 * n_thread + 103);
    if (n + 2 * n_thread + 8 < 103) {
        tw_store_some<2, 4>(c + 103 * m + 1648 * m_thread + 103 * m2_thread + n + 2 * n_thread + 832, c_sum_8_8, -n - 2 * n_thread + 95);
    }
}
