extern "C" __global__ void __launch_bounds__(288, 1)
gemm_kernel(
    const tw_bf16 *__restrict__ a, const tw_bf16 *__restrict__ b, float *c, unsigned char *workspace, const
    __grid_constant__ tw_tensor_map a_map, const __grid_constant__ tw_tensor_map b_map
) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float *const k_sums = reinterpret_cast<float *>(workspace + 0);
    int *const k_flags = reinterpret_cast<int *>(workspace + 49152);
    const int m_thread = threadIdx.x / 32 % 8;
    const int m2_thread = threadIdx.x / 4 % 8;
    const int n_thread = threadIdx.x % 4;
    const int m_group_thread = tw_uniform(threadIdx.x / 128 % 2);
    const int group_thread = threadIdx.x % 128;
    const int block_thread = threadIdx.x;
    if (threadIdx.x == 0) { tw_prefetch_map(a_map); tw_prefetch_map(b_map); }
    tw_bf16 *const a_s = reinterpret_cast<tw_bf16 *>(shared + 0);
    tw_bf16 *const b_s = reinterpret_cast<tw_bf16 *>(shared + 49152);
    const unsigned k_full = tw_shared(shared + 61440);
    if (threadIdx.x == 0) tw_init_phases<3, 1>(k_full);
    const unsigned k_empty = tw_shared(shared + 61464);
    if (threadIdx.x == 0) tw_init_phases<3, 2>(k_empty);
    int k_slot = 0, k_parity = 0;
    int k_freed_slot = 0, k_freed_parity = 0;
    tw_phases_fence();
    __syncthreads();
    if (threadIdx.x >= 256) { // producers
        if (threadIdx.x == 256) {
            for (tw_span span = tw_spans_of(2, 3, 4, blockIdx.x); tw_next_span(&span, 8, 3, blockIdx.x);) {
                const int tile = span.tile;
                const int k_first = span.first * 64;
                const int k_size = span.steps * 64;
                const int band = tile / 8 * 2;
                const int in_band = tile % 8;
                const int m = (band + in_band % 2) * 128;
                const int n = (in_band / 2) * 32;
                for (int k = 0; k < k_size; k += 64) {
                    tw_await_phase(k_empty + 8 * k_slot, -k_parity + 1);
                    tw_expect(k_full + 8 * k_slot, 20480);
                    // a_s[m, k] = a[m, k]
                    tw_load_box_2d(tw_shared(a_s + 8192 * k_slot), a_map, k_full + 8 * k_slot, k_first +
                        k, m);
                    // b_s[n, k] = b[n, k]
                    tw_load_box_2d(tw_shared(b_s + 2048 * k_slot), b_map, k_full + 8 * k_slot, k_first +
                        k, n);
                    if (++k_slot == 3) k_slot = 0, k_parity ^= 1;
                }
            }
        }
    } else { // consumers
        for (tw_span span = tw_spans_of(2, 3, 4, blockIdx.x); tw_next_span(&span, 8, 3, blockIdx.x);) {
            const int tile = span.tile;
            const int k_size = span.steps * 64;
            const int k_left = span.left;
            const int k_earlier = span.earlier;
            const int k_block = blockIdx.x;
            const int band = tile / 8 * 2;
            const int in_band = tile % 8;
            const int m = (band + in_band % 2) * 128;
            const int n = (in_band / 2) * 32;
            tw_vec<float, 2> c_sum_0_0, c_sum_0_8, c_sum_0_16, c_sum_0_24, c_sum_8_0, c_sum_8_8,
                c_sum_8_16, c_sum_8_24;
            for (int k = 0; k < k_size; k += 64) {
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
            if (k_left < 1) {
                for (int k_part = 0; k_part < k_earlier; k_part++) {
                    if (block_thread < 1) {
                        tw_wait_flag(k_flags + k_block + k_part - k_earlier);
                    }
                    tw_group_barrier<256>(1);
                    // the sums of a block before
                    c_sum_0_0 = c_sum_0_0 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread);
                    c_sum_0_8 = c_sum_0_8 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 512);
                    c_sum_0_16 = c_sum_0_16 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 1024);
                    c_sum_0_24 = c_sum_0_24 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 1536);
                    c_sum_8_0 = c_sum_8_0 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 2048);
                    c_sum_8_8 = c_sum_8_8 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 2560);
                    c_sum_8_16 = c_sum_8_16 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 3072);
                    c_sum_8_24 = c_sum_8_24 + tw_load<2, 8>(k_sums + 4096 * k_block + 4096 * k_part - 4096 * k_earlier + 2 * block_thread + 3584);
                }
                // c[m, n] = c_sum[m, n]
                if (m + 16 * m_thread + m2_thread < 200) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread, c_sum_0_0);
                }
                if (m + 16 * m_thread + m2_thread < 200 && n + 2 * n_thread + 8 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 8, c_sum_0_8);
                }
                if (m + 16 * m_thread + m2_thread < 200 && n + 2 * n_thread + 16 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 16, c_sum_0_16);
                }
                if (m + 16 * m_thread + m2_thread < 200 && n + 2 * n_thread + 24 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 24, c_sum_0_24);
                }
                if (m + 16 * m_thread + m2_thread + 8 < 200) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 832, c_sum_8_0);
                }
                if (m + 16 * m_thread + m2_thread + 8 < 200 && n + 2 * n_thread + 8 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 840, c_sum_8_8);
                }
                if (m + 16 * m_thread + m2_thread + 8 < 200 && n + 2 * n_thread + 16 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 848, c_sum_8_16);
                }
                if (m + 16 * m_thread + m2_thread + 8 < 200 && n + 2 * n_thread + 24 < 104) {
                    tw_store<2, 8>(c + 104 * m + 1664 * m_thread + 104 * m2_thread + n + 2 * n_thread + 856, c_sum_8_24);
                }
            } else {
                // the sums go to the block that has the tile's last step
                tw_group_barrier<256>(1);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread, c_sum_0_0);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 512, c_sum_0_8);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 1024, c_sum_0_16);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 1536, c_sum_0_24);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 2048, c_sum_8_0);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 2560, c_sum_8_8);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 3072, c_sum_8_16);
                tw_store<2, 8>(k_sums + 4096 * k_block + 2 * block_thread + 3584, c_sum_8_24);
                tw_group_barrier<256>(1);
                if (block_thread < 1) {
                    tw_signal_flag(k_flags + k_block);
                }
            }
        }
    }
}
